// The settings: a form for each clip's choices, cameras by name, and how long each preset will take.

const element = (id) => document.getElementById(id);
const chosen = (name) => document.querySelector(`[name=${name}]:checked`).value;

export class Controls {
  // `changed` hears of every change, `byHand` of the gamma that is tried by hand.
  constructor({ changed, byHand }) {
    this.changed = changed;
    this.byHand = byHand;
    this.fps = 30;
    this.camera = "";
    this.inMilliseconds = false;
    this.listen();
    this.refresh();
  }

  read() {
    const way = chosen("readout");
    const number = (id, least, most) => Math.min(most, Math.max(least, Number(element(id).value) || 0));
    return {
      readout: way === "hand" ? (this.inMilliseconds ? "milliseconds" : "gamma") : way,
      camera: way === "camera" ? this.camera : "",
      milliseconds: number("milliseconds", 0, 1000),
      gamma: number("gamma", 0, 1),
      scan: element("scan").value || null,
      preset: chosen("preset"),
      strength: Number(element("strength").value),
      border: element("border").value,
      denoise: element("denoise").checked,
      slow: Number(element("slow").value),
      beside: element("beside").checked,
      start: number("start", 0, 1e6),
    };
  }

  write(settings, fps) {
    this.fps = fps || 30;
    const byHand = ["milliseconds", "gamma"].includes(settings.readout);
    this.inMilliseconds = settings.readout === "milliseconds";
    document.querySelector(`[name=readout][value=${byHand ? "hand" : settings.readout}]`).checked = true;
    document.querySelector(`[name=preset][value=${settings.preset}]`).checked = true;
    this.camera = element("camera").value = settings.camera;
    this.setGamma(this.inMilliseconds ? (settings.milliseconds * this.fps) / 1000 : settings.gamma);
    if (this.inMilliseconds) element("milliseconds").value = settings.milliseconds;
    element("scan").value = settings.scan ?? "";
    for (const id of ["strength", "border", "slow", "start"]) element(id).value = settings[id];
    for (const id of ["denoise", "beside"]) element(id).checked = settings[id];
    this.refresh();
  }

  setGamma(gamma) {
    element("gamma").value = Number(gamma.toFixed(3));
    element("gamma-slider").value = gamma;
    element("milliseconds").value = Number(((1000 * gamma) / this.fps).toFixed(2));
  }

  get isByHand() {
    return chosen("readout") === "hand";
  }

  get gamma() {
    return Number(element("gamma").value) || 0;
  }

  // The estimated time of each preset, for a clip of the state.
  estimate(clip, state) {
    const frames = clip.info.frames;
    const each = clip.frame_seconds[element("denoise").checked ? 1 : 0];
    for (const preset of ["fast", "default", "best"]) {
      const known = frames && each;
      const seconds = known ? frames * each[preset] * Number(element("slow").value) * state.slowness : 0;
      element(`time-${preset}`).textContent = known ? `about ${inWords(seconds)}` : "";
    }
    element("time-note").textContent = state.measured
      ? "As long as the last run here suggests."
      : "A first guess; it is better after the first run.";
  }

  refresh() {
    element("by-camera").hidden = chosen("readout") !== "camera";
    element("by-hand").hidden = !this.isByHand;
    element("strength-value").textContent = `${Math.round(100 * element("strength").value)} %`;
    // Slow motion has neither of these.
    const slow = element("slow").value !== "1";
    for (const id of ["strength", "border", "beside"]) element(id).disabled = slow;
    this.changed();
  }

  listen() {
    element("controls").addEventListener("change", () => this.refresh());
    element("strength").addEventListener("input", () => this.refresh());
    element("gamma-slider").addEventListener("input", (event) => this.tryGamma(Number(event.target.value), false));
    element("gamma").addEventListener("input", (event) => this.tryGamma(Number(event.target.value), false, "gamma"));
    element("milliseconds").addEventListener("input", (event) => {
      this.tryGamma((Number(event.target.value) * this.fps) / 1000, true, "milliseconds");
    });
    for (const radio of document.getElementsByName("readout")) {
      radio.addEventListener("change", () => this.isByHand && this.byHand(this.gamma));
    }
    element("scan").addEventListener("change", () => this.isByHand && this.byHand(this.gamma));
    listenToCameras((name) => {
      this.camera = name;
      this.changed();
    });
  }

  tryGamma(gamma, inMilliseconds, typedIn = "") {
    this.inMilliseconds = inMilliseconds;
    const typed = typedIn && element(typedIn).value;
    this.setGamma(Math.min(1, Math.max(0, gamma || 0)));
    if (typedIn) element(typedIn).value = typed; // not to be rewritten while it is typed
    this.byHand(this.gamma);
  }
}

export function inWords(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(seconds < 36000 ? 1 : 0)} h`;
}

// A combobox after the pattern of the ARIA practices: arrows move, enter takes, escape closes.
function listenToCameras(taken) {
  const [field, list] = [element("camera"), element("cameras")];
  let asked = 0;
  let active = -1;

  const close = () => {
    list.hidden = true;
    active = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const take = (name) => {
    field.value = name;
    close();
    taken(name);
  };
  const mark = (index) => {
    const options = [...list.querySelectorAll("[role=option]:not([aria-disabled])")];
    active = options.length ? (index + options.length) % options.length : -1;
    options.forEach((option, place) => option.setAttribute("aria-selected", String(place === active)));
    if (active >= 0) {
      field.setAttribute("aria-activedescendant", options[active].id);
      options[active].scrollIntoView({ block: "nearest" });
    }
  };
  const search = async () => {
    const number = ++asked;
    const answer = await fetch(`/cameras?query=${encodeURIComponent(field.value)}`);
    const { cameras } = await answer.json();
    if (number !== asked) return; // a later one is on its way
    list.replaceChildren(
      ...cameras.map((camera, index) => {
        const option = document.createElement("li");
        option.id = `camera-${index}`;
        option.dataset.name = camera.name;
        option.setAttribute("role", "option");
        option.setAttribute("aria-selected", "false");
        const times = camera.least === camera.most ? camera.least : `${camera.least}–${camera.most}`;
        const readout = document.createElement("span");
        readout.textContent = `${times} ms`;
        option.append(camera.name, readout);
        option.addEventListener("pointerdown", (event) => {
          event.preventDefault();
          take(camera.name);
        });
        return option;
      }),
    );
    if (!cameras.length) {
      const none = document.createElement("li");
      none.textContent = "No camera of this name is known";
      none.setAttribute("role", "option");
      none.setAttribute("aria-disabled", "true");
      list.append(none);
    }
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    active = -1;
  };

  field.addEventListener("input", () => {
    taken("");
    search();
  });
  field.addEventListener("focus", search);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") mark(active + 1);
    else if (event.key === "ArrowUp") mark(active - 1);
    else if (event.key === "Enter" && active >= 0) take(list.children[active].dataset.name);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}
