// The page: what the server says is shown, what the user chooses is sent. The server keeps the state, so that a page
// that is loaded anew shows the same.

import { listenToFiles, showClips } from "./clips.js";
import { Controls, inWords } from "./controls.js";
import { showFindings } from "./findings.js";
import { Player } from "./player.js";
import { complain, send } from "./server.js";

const element = (id) => document.getElementById(id);
const STAGES = {
  calibrating: "Finding the readout",
  correcting: "Correcting",
  "slowing down": "Making slow motion",
  copying: "Copying",
};

let state = { clips: [], slowness: 1, measured: false };
let chosenKey = null;
let loading = null; // of the clip whose settings are being written into the form
const settings = new Map(); // of each clip, as chosen on this page
const shows = new Map(); // of each clip: clip, preview or run
const announced = new Map(); // tasks whose end has been seen, by clip and kind
let trying = false; // a gamma by hand
let pendingChoice = null; // a clip that has been added, and is not in the state yet

const player = new Player();
const controls = new Controls({ changed: settingsChanged, byHand: tryGamma });
const defaults = controls.read();

const chosen = () => state.clips.find((clip) => clip.key === chosenKey);
// A preview may be shown while its readout is still being tested.
const there = (task) => task?.state === "done" || (task?.state === "working" && task.results > 0);
const address = (clip, kind, name) => `/clips/${clip.key}/${kind}/${clip.tasks[kind].number}/${name}`;

/* ---- which clip, and which of its pictures ---- */

function choose(key) {
  if (key === chosenKey) return;
  chosenKey = key;
  trying = false;
  const clip = chosen();
  if (clip) {
    const last = settings.get(key) ?? clip.tasks.run?.settings ?? clip.tasks.preview?.settings ?? defaults;
    loading = key;
    controls.write({ ...defaults, ...last }, clip.info.fps);
    loading = null;
    player.setSplit(50);
  }
  refresh();
}

function settingsChanged() {
  if (loading || !chosenKey) return;
  settings.set(chosenKey, controls.read());
  if (chosen()?.info.fps) controls.estimate(chosen(), state);
  if (trying && !controls.isByHand) {
    trying = false;
    refresh();
  }
}

for (const radio of document.getElementsByName("shows")) {
  radio.addEventListener("change", () => {
    trying = false;
    shows.set(chosenKey, radio.value);
    refresh();
  });
}

function refresh() {
  showClips(state.clips, chosenKey, choose);
  const clip = chosen();
  element("stage").hidden = element("controls").hidden = !clip;
  if (!clip) return;
  document.title = `${clip.name} – qrsc`;
  element("clip-name").textContent = clip.name;
  element("clip-facts").textContent = factsInWords(clip);
  if (clip.info.width) element("screen").style.setProperty("--ratio", clip.info.width / clip.info.height);
  controls.fps = clip.info.fps || 30;
  if (clip.info.fps) controls.estimate(clip, state);
  notice(clip);
  const ready = { clip: true, preview: there(clip.tasks.preview), run: there(clip.tasks.run) };
  for (const radio of document.getElementsByName("shows")) radio.disabled = !ready[radio.value];
  const wanted = shows.get(clip.key) ?? (ready.run ? "run" : ready.preview ? "preview" : "clip");
  const which = ready[wanted] && !trying ? wanted : "clip";
  document.querySelector(`[name=shows][value=${which}]`).checked = true;
  showStatus(clip);
  for (const id of ["preview", "run"]) element(id).disabled = clip.tasks.look.state !== "done";
  if (trying) showStills(clip);
  else show(clip, which);
}

// A task that has just ended is shown.
function notice(clip) {
  for (const kind of ["preview", "run"]) {
    const task = clip.tasks[kind];
    const name = `${clip.key} ${kind}`;
    if (!task || announced.get(name) === task.number) continue;
    if (there(task)) {
      if (announced.has(name) || shows.has(clip.key)) shows.set(clip.key, kind);
      announced.set(name, task.number);
      trying = false;
    }
  }
}

const results = new Map(); // of tasks that are done, by address

async function show(clip, which) {
  const videos = which !== "clip";
  element("findings").hidden = !videos;
  element("save").hidden = which !== "run";
  if (!videos) {
    if (clip.tasks.look.state === "done") player.showStill(address(clip, "look", "first.jpg"), "First frame of the clip");
    return;
  }
  const place = `${address(clip, which, "result")}?number=${clip.tasks[which].results}`;
  if (!results.has(place)) results.set(place, fetch(place).then((answer) => (answer.ok ? answer.json() : null)));
  const result = await results.get(place);
  if (!result || chosenKey !== clip.key || trying) return;
  player.showVideos(address(clip, which, "before"), `${address(clip, which, "after")}?file=${result.after}`, result);
  if (element("findings").dataset.shows === place) return;
  element("findings").dataset.shows = place;
  showFindings(result, { seek: (share) => player.seek(share * player.duration) });
  if (which !== "run") return;
  element("save-video").href = address(clip, "run", "video");
  element("save-compare").href = address(clip, "run", "compare");
  element("save-compare").hidden = !result.compare;
  element("save-json").href = address(clip, "run", "json");
  // Word by word, so that no line ends within an option.
  const words = result.command.split(" ").map((word) => Object.assign(document.createElement("span"), { textContent: word }));
  element("command").replaceChildren(...words.flatMap((word, index) => (index ? [" ", word] : [word])));
}

function factsInWords(clip) {
  const { width, height, fps, seconds, codec, camera, stabilisation } = clip.info;
  if (clip.tasks.look.state === "failed") return "";
  if (!width) return "Reading";
  const rate = `${Number(fps.toFixed(2))} fps`;
  const length = seconds === null ? "" : `${seconds.toFixed(1)} s`;
  const steadied = stabilisation ? `stabilised in the camera (${stabilisation})` : "";
  return [`${width} × ${height}`, length, rate, codec, camera, steadied].filter(Boolean).join(" · ");
}

/* ---- what is being done ---- */

function showStatus(clip) {
  const { look, run, preview } = clip.tasks;
  const active = (task) => task && ["waiting", "working"].includes(task.state);
  const kind = active(run) ? "run" : active(preview) ? "preview" : newest(run, preview);
  const task = look.state === "done" ? clip.tasks[kind] : look;
  const [line, detail] = look.state === "done" ? statusInWords(task, kind) : lookInWords(look);
  element("status-line").textContent = line;
  element("status-line").toggleAttribute("data-wrong", task?.state === "failed");
  element("status-detail").textContent = detail;
  const busy = active(task) && !there(task);
  element("progress").hidden = !busy;
  const { done = 0, total } = task?.progress ?? {};
  if (total) element("progress").value = done / total;
  else element("progress").removeAttribute("value");
  element("cancel").hidden = !busy || task === look;
  element("cancel").dataset.kind = kind;
  const picture = busy && task.frame > 0 && kind !== undefined;
  element("thumbnail").hidden = !picture;
  if (picture) {
    const source = `${address(clip, kind, "thumb.jpg")}?frame=${task.frame}`;
    if (element("thumbnail").getAttribute("src") !== source) element("thumbnail").src = source;
    element("thumbnail").alt = `Frame ${task.frame}, corrected`;
  }
}

const newest = (run, preview) => ((run?.number ?? 0) > (preview?.number ?? 0) ? "run" : "preview");

function lookInWords(look) {
  return look.state === "failed" ? [sentence(look.error), "Remove it and add another one."] : ["Reading the clip", ""];
}

// A capital letter first, unless it begins with the name of a file.
const sentence = (text) => (/^[^ ]*[./]/.test(text ?? "") ? text : (text ?? "").replace(/^./, (first) => first.toUpperCase()));

function statusInWords(task, kind) {
  const thing = kind === "run" ? "The clip" : "The preview";
  if (!task) return ["Ready. Look at a preview, or correct the clip.", "The preview takes some seconds."];
  if (task.state === "waiting") return [`${thing} waits for its turn`, task.place ? `${task.place} before it` : ""];
  if (task.state === "cancelled") return [`${thing} was cancelled`, "Nothing was kept of it."];
  if (task.state === "failed") return [sentence(task.error), ""];
  if (there(task)) {
    if (kind === "run") return ["Corrected. Save it below.", ""];
    const testing = task.state === "working" ? "Other parts of the clip are still being asked about its readout." : "";
    return ["This is the preview, by the preset Fast.", testing];
  }
  const { stage, done, total, seconds, left } = task.progress;
  if (!stage) return [kind === "run" ? "Starting" : "Preparing the preview", ""];
  const known = stage !== "calibrating";
  const parts = [
    known && total ? `${done} of ${total} frames` : `${done} frames`,
    known && seconds > 0.5 ? `${(done / seconds).toFixed(1)} per second` : "",
    known && left !== null && left !== undefined ? `${inWords(left)} left` : "",
  ];
  return [STAGES[stage] ?? sentence(stage), parts.filter(Boolean).join(" · ")];
}

element("cancel").addEventListener("click", (event) => {
  send("POST", `/clips/${chosenKey}/${event.currentTarget.dataset.kind}/cancel`);
});

function start(kind) {
  const clip = chosen();
  if (!clip) return;
  const wanted = controls.read();
  if (wanted.readout === "camera" && !wanted.camera) {
    complain("Choose a camera from the list, or have the readout found in the clip.");
    element("camera").focus();
    return;
  }
  settings.set(clip.key, wanted);
  shows.set(clip.key, shows.get(clip.key) ?? "clip"); // this page asked for it, and shows it when it is there
  send("POST", `/clips/${clip.key}/${kind}`, wanted);
}

element("preview").addEventListener("click", () => start("preview"));
element("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  start("run");
});

element("copy").addEventListener("click", async () => {
  const text = element("command").textContent;
  try {
    await navigator.clipboard.writeText(text);
    element("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(element("command"));
    element("copy").textContent = "Selected";
  }
  setTimeout(() => (element("copy").textContent = "Copy"), 2000);
});

/* ---- gamma by hand: one frame, corrected at several ---- */

const asked = new Map(); // the scan for which stills of a clip were asked for

function tryGamma() {
  const clip = chosen();
  if (!clip || loading) return;
  trying = true;
  const scan = element("scan").value || null;
  if (!clip.tasks.stills || asked.get(clip.key) !== scan) {
    asked.set(clip.key, scan);
    send("POST", `/clips/${clip.key}/stills`, { scan });
  }
  settings.set(clip.key, controls.read());
  showStills(clip);
}

function showStills(clip) {
  const stills = clip.tasks.stills;
  const told = element("stills-state");
  element("findings").hidden = element("save").hidden = true;
  if (stills?.state === "done") {
    const number = Math.round(10 * controls.gamma);
    const name = `still-${String(number).padStart(2, "0")}.jpg`;
    const shown = (number / 10).toFixed(1);
    const label = number ? `Corrected with γ ${shown}` : "As it is, γ 0";
    player.showStill(address(clip, "stills", name), `One frame, ${label.toLowerCase()}`, label);
    told.textContent = "The picture shows the nearest tenth of γ.";
  } else if (stills?.state === "failed") {
    told.textContent = sentence(stills.error);
  } else {
    told.textContent = "One frame is being corrected with several γ.";
    if (clip.tasks.look.state === "done") player.showStill(address(clip, "look", "first.jpg"), "First frame of the clip");
  }
}

/* ---- the server ---- */

listenToFiles((key) => {
  shows.set(key, "clip");
  pendingChoice = key;
  takeState(state);
});

function takeState(now) {
  state = now;
  if (pendingChoice && state.clips.some((clip) => clip.key === pendingChoice)) {
    const key = pendingChoice;
    pendingChoice = null;
    if (!chosen() || !busyHere()) choose(key);
  }
  if (!chosen()) {
    chosenKey = null;
    const first = state.clips.find((clip) => clip.tasks.run?.state === "working") ?? state.clips.at(-1);
    if (first) choose(first.key);
  }
  refresh();
}

const busyHere = () => Object.values(chosen().tasks).some((task) => ["waiting", "working"].includes(task.state));

let lost = false;
const events = new EventSource("/events");
events.addEventListener("message", (event) => {
  lost = false;
  takeState(JSON.parse(event.data));
});
events.addEventListener("error", () => {
  if (!lost) complain("The server does not answer. Is `qrsc web` still running in its terminal?");
  lost = true;
});
