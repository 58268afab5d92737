// Before and after on one clock: the corrected video leads, the other follows it to within a frame.

const element = (id) => document.getElementById(id);
const clamp = (value, least, most) => Math.min(most, Math.max(least, value));
const NEAR = 28; // pixels from the divider within which a drag moves it, when the picture is enlarged

export class Player {
  constructor() {
    this.screen = element("screen");
    this.before = element("before");
    this.after = element("after");
    this.slow = 1; // how many times as long the corrected video is
    this.fps = 30;
    this.view = "slider";
    this.shown = false; // videos, rather than a still
    this.playing = false; // is meant to: at its end, a video that is to go on is paused for a moment
    this.zoom = 1;
    this.place = { x: 0, y: 0 };
    this.source = "";
    this.listen();
    this.follow();
  }

  /* ---- what is shown ---- */

  showStill(address, words, label = "") {
    this.shown = false;
    this.pause();
    const still = element("still");
    if (still.getAttribute("src") !== address) still.src = address;
    still.alt = words;
    element("still-label").textContent = label;
    this.applyView();
  }

  showVideos(before, after, { fps, slow }) {
    this.shown = true;
    this.fps = fps || 30;
    this.slow = slow || 1;
    if (this.source !== after) {
      this.source = after;
      this.before.src = before;
      this.after.src = after;
      this.after.addEventListener("loadeddata", () => this.play(), { once: true });
    }
    this.applyView();
  }

  get duration() {
    return Number.isFinite(this.after.duration) ? this.after.duration : 0;
  }

  applyView() {
    this.screen.dataset.view = this.shown ? this.view : "still";
    this.screen.toggleAttribute("data-zoomed", this.zoom > 1);
    const farthest = (this.zoom - 1) * 50;
    this.place.x = clamp(this.place.x, -farthest, farthest);
    this.place.y = clamp(this.place.y, -farthest, farthest);
    this.screen.style.setProperty("--zoom", this.zoom);
    this.screen.style.setProperty("--x", `${this.place.x}%`);
    this.screen.style.setProperty("--y", `${this.place.y}%`);
    const transport = element("transport");
    for (const field of transport.querySelectorAll("button, .seek, [name=view]")) field.disabled = !this.shown;
  }

  setSplit(percent) {
    const split = element("split");
    split.value = clamp(percent, 0, 100);
    this.screen.style.setProperty("--split", `${split.value}%`);
    split.setAttribute("aria-valuetext", `${Math.round(split.value)} % before`);
  }

  /* ---- the clock ---- */

  play() {
    if (!this.shown) return;
    this.setPlaying(true);
    this.after.play().catch(() => {});
    this.before.play().catch(() => {});
  }

  pause() {
    this.setPlaying(false);
    this.after.pause();
    this.before.pause();
    this.before.currentTime = this.after.currentTime / this.slow;
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  setPlaying(playing) {
    this.playing = playing;
    element("play").textContent = playing ? "❚❚" : "▶";
    element("play").setAttribute("aria-label", playing ? "Pause" : "Play");
  }

  seek(seconds) {
    this.after.currentTime = clamp(seconds, 0, this.duration);
    this.before.currentTime = this.after.currentTime / this.slow;
    this.tell();
  }

  step(frames) {
    this.pause();
    const last = Math.max(0, Math.round(this.duration * this.fps) - 1);
    const now = Math.floor(this.after.currentTime * this.fps + 1e-3);
    // The middle of a frame: rounding must not fall back to the one before.
    this.seek((clamp(now + frames, 0, last) + 0.5) / this.fps);
  }

  follow() {
    const { before, after } = this;
    if (this.shown && !after.paused && before.readyState >= 2) {
      const ahead = before.currentTime - after.currentTime / this.slow;
      if (Math.abs(ahead) > 0.3) before.currentTime = after.currentTime / this.slow;
      else before.playbackRate = clamp(1 - 2 * ahead * this.slow, 0.8, 1.25) / this.slow;
      if (before.paused && !before.ended) before.play().catch(() => {});
    }
    if (this.shown && !after.paused) this.tell();
    requestAnimationFrame(() => this.follow());
  }

  tell() {
    const now = this.after.currentTime;
    const seconds = (now % 60).toFixed(2).padStart(5, "0");
    element("clock").textContent = `${Math.floor(now / 60)}:${seconds}`;
    if (document.activeElement !== element("seek") || this.playing) {
      element("seek").value = this.duration ? (1000 * now) / this.duration : 0;
    }
    element("seek").setAttribute("aria-valuetext", `${now.toFixed(2)} seconds`);
  }

  /* ---- hands ---- */

  listen() {
    element("play").addEventListener("click", () => this.toggle());
    element("back").addEventListener("click", () => this.step(-1));
    element("forward").addEventListener("click", () => this.step(1));
    element("seek").addEventListener("input", (event) => {
      this.pause();
      this.seek((event.target.value / 1000) * this.duration);
    });
    element("split").addEventListener("input", (event) => this.setSplit(event.target.value));
    for (const [name, set] of [
      ["view", (value) => (this.view = value)],
      ["zoom", (value) => (this.zoom = Number(value))],
    ]) {
      for (const radio of document.getElementsByName(name)) {
        radio.addEventListener("change", () => {
          set(radio.value);
          this.applyView();
        });
      }
    }
    this.after.addEventListener("ended", () => {
      if (!this.playing) return;
      this.seek(0);
      this.play();
    });
    for (const event of ["loadeddata", "seeked"]) this.after.addEventListener(event, () => this.tell());
    this.listenToPointer();
    document.addEventListener("keydown", (event) => {
      const field = event.target.closest("input:not([type=range], [type=radio]), select, textarea, button, a, [role=textbox]");
      if (field || !this.shown || event.ctrlKey || event.metaKey || event.altKey) return;
      const done = { " ": () => this.toggle(), ",": () => this.step(-1), ".": () => this.step(1) }[event.key];
      if (done) {
        event.preventDefault();
        done();
      }
    });
  }

  listenToPointer() {
    let drag = null;
    this.screen.addEventListener("pointerdown", (event) => {
      const box = this.screen.getBoundingClientRect();
      const divider = box.left + (box.width * element("split").value) / 100;
      const divides = this.shown && this.view === "slider";
      const pans = this.zoom > 1 && !(divides && Math.abs(event.clientX - divider) < NEAR);
      if (!pans && !divides) return;
      drag = { pans, x: event.clientX, y: event.clientY, place: { ...this.place } };
      this.screen.setPointerCapture(event.pointerId);
      if (!pans) {
        element("split").focus({ preventScroll: true, focusVisible: false });
        this.moveTo(event);
      }
      event.preventDefault();
    });
    this.screen.addEventListener("pointermove", (event) => {
      if (!drag) return;
      if (!drag.pans) return this.moveTo(event);
      const box = this.screen.getBoundingClientRect();
      this.place.x = drag.place.x + (100 * (event.clientX - drag.x)) / box.width;
      this.place.y = drag.place.y + (100 * (event.clientY - drag.y)) / box.height;
      this.applyView();
    });
    for (const end of ["pointerup", "pointercancel"]) this.screen.addEventListener(end, () => (drag = null));
  }

  moveTo(event) {
    const box = this.screen.getBoundingClientRect();
    this.setSplit((100 * (event.clientX - box.left)) / box.width);
  }
}
