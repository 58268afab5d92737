// What was found: the readout with its curve, what happened along the clip, and the figures of the result.

const element = (id) => document.getElementById(id);
const NAMESPACE = "http://www.w3.org/2000/svg";
const DIRECTIONS = {
  "top-down": "top to bottom",
  "bottom-up": "bottom to top",
  "left-right": "left to right",
  "right-left": "right to left",
};

function draw(parent, name, attributes, text = "") {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  parent.append(made);
  return made;
}

function picture(place, width, height, words) {
  const svg = document.createElementNS(NAMESPACE, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", words);
  place.replaceChildren(svg);
  return svg;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

export function showFindings(result, { seek }) {
  element("found-readout").textContent = readoutInWords(result);
  element("found-from").textContent = sentence(result.readout_from);
  drawCurve(result);
  drawTimeline(result, seek);
  const figures = [
    ["Correction on average", `${result.mean_px.toFixed(1)} px`],
    ["Largest correction", `${result.largest_px.toFixed(1)} px`],
    ["Unsure motion", percent(result.unsure)],
    ["Filled from neighbours", percent(result.filled)],
    ["Scene cuts", result.cuts],
    ["Repeated frames", result.repeated],
    ["Frames", `${result.frames}, ${result.unchanged} as they came`],
    ["Time", `${result.seconds.toFixed(1)} s`],
  ];
  element("figures").replaceChildren(
    ...figures.map(([term, value]) => {
      const group = document.createElement("div");
      const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
      dt.textContent = term;
      dd.textContent = value;
      group.append(dt, dd);
      return group;
    }),
  );
  element("notes").replaceChildren(
    ...result.notes
      .filter((note) => note !== result.readout_from)
      .map((note) => {
        const item = document.createElement("li");
        item.textContent = sentence(note);
        return item;
      }),
  );
}

const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".") : "");

function readoutInWords(result) {
  const found = result.calibration;
  if (result.gamma === 0) return "Nothing to correct";
  const milliseconds = (gamma) => (1000 * gamma) / result.fps;
  let words = `${result.readout_ms.toFixed(1)} ms, γ ${result.gamma.toFixed(3)}`;
  if (found && found.determined) {
    words += ` (${milliseconds(found.low).toFixed(1)} to ${milliseconds(found.high).toFixed(1)} ms)`;
  }
  return `${words}, ${DIRECTIONS[result.scan]}`;
}

function drawCurve(result) {
  const found = result.calibration;
  element("curve").hidden = !found || found.curve_gammas.length < 2;
  if (element("curve").hidden) return;
  const [width, height, top, bottom] = [640, 170, 12, 130];
  const svg = picture(element("curve"), width, height, `How well the clip fits each γ, best at ${found.gamma.toFixed(3)}`);
  const [least, most] = [found.curve_gammas[0], found.curve_gammas.at(-1)];
  const across = (gamma) => 20 + ((width - 40) * (gamma - least)) / (most - least);
  const largest = Math.max(...found.curve_costs, 1e-9);
  const sign = ["bottom-up", "right-left"].includes(found.scan) ? -1 : 1;
  const ends = [found.low, found.high].map((gamma) => across(sign * gamma)).sort((a, b) => a - b);
  draw(svg, "rect", { class: "band", x: ends[0], y: top, width: Math.max(2, ends[1] - ends[0]), height: bottom - top });
  for (let tick = Math.ceil(least * 2) / 2; tick <= most + 1e-9; tick += 0.5) {
    draw(svg, "line", { class: "axis", x1: across(tick), x2: across(tick), y1: top, y2: bottom });
    draw(svg, "text", { x: across(tick), y: bottom + 16, "text-anchor": "middle" }, tick.toFixed(1).replace("-", "−"));
  }
  const points = found.curve_gammas.map((gamma, index) => {
    const share = found.curve_costs[index] / largest;
    return `${across(gamma).toFixed(1)},${(bottom - (bottom - top) * share).toFixed(1)}`;
  });
  draw(svg, "polyline", { class: "line", points: points.join(" ") });
  if (found.determined) {
    const at = across(sign * found.gamma);
    draw(svg, "line", { class: "estimate", x1: at, x2: at, y1: top, y2: bottom });
  }
  const caption = "γ; below 0 the scan runs the other way. Low is a good fit, the band is the interval";
  draw(svg, "text", { x: width / 2, y: bottom + 34, "text-anchor": "middle" }, caption);
}

function drawTimeline(result, seek) {
  const line = result.timeline;
  const [width, bottom] = [640, 46];
  const words =
    `${line.cuts.length} scene cuts, ${line.repeated.length} repeated frames, ` +
    `unsure motion up to ${percent(Math.max(0, ...line.unsure))}`;
  const svg = picture(element("timeline"), width, 84, words);
  const step = width / Math.max(1, line.unsure.length);
  const across = (frame) => (width * frame) / Math.max(1, line.frames);
  draw(svg, "line", { class: "axis", x1: 0, x2: width, y1: bottom, y2: bottom });
  line.unsure.forEach((share, index) => {
    const height = 40 * Math.min(1, share / 0.3); // a third of the picture fills it
    const bar = { class: "area", x: index * step, y: bottom - height, width: Math.max(0.5, step - 0.3), height };
    draw(svg, "rect", bar);
  });
  for (const frame of line.cuts.slice(0, 400)) {
    draw(svg, "line", { class: "cut", x1: across(frame), x2: across(frame), y1: 2, y2: bottom + 6 });
  }
  for (const frame of line.repeated.slice(0, 400)) {
    draw(svg, "circle", { class: "repeat", cx: across(frame + 0.5), cy: bottom + 6, r: 2.5 });
  }
  // A legend in marks and words.
  draw(svg, "rect", { class: "area", x: 0, y: 70, width: 10, height: 8 });
  draw(svg, "text", { x: 15, y: 78 }, "unsure motion");
  draw(svg, "line", { class: "cut", x1: 122, x2: 122, y1: 68, y2: 80 });
  draw(svg, "text", { x: 130, y: 78 }, "scene cut");
  draw(svg, "circle", { class: "repeat", cx: 209, cy: 74, r: 2.5 });
  draw(svg, "text", { x: 217, y: 78 }, "repeated frame");
  draw(svg, "text", { x: width, y: 78, "text-anchor": "end" }, `${line.frames} frames`);
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    seek((event.clientX - box.left) / box.width);
  });
}
