// Clips on their way in, and the list of those that are there.

import { complain, send } from "./server.js";

const element = (id) => document.getElementById(id);
const WORDS = { waiting: "Waiting", working: "Working", done: "Done", failed: "Failed", cancelled: "Cancelled" };

/* ---- uploads ---- */

const uploads = [];
let sending = false;

export function listenToFiles(added) {
  const drop = element("drop");
  const take = (files) => {
    for (const file of files) uploads.push(row(file));
    sendNext(added);
  };
  element("choose").addEventListener("change", (event) => {
    take(event.target.files);
    event.target.value = "";
  });
  for (const name of ["dragenter", "dragover"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) drop.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    take(event.dataTransfer.files);
  });
}

function row(file) {
  const item = document.createElement("li");
  item.className = "clip";
  item.innerHTML =
    '<div class="clip-open"><span class="blank"></span><div><p class="clip-name"></p>' +
    '<p class="quiet small">Adding</p><progress max="1" value="0"></progress></div></div>' +
    '<button class="clip-remove" type="button">×</button>';
  item.querySelector(".clip-name").textContent = file.name;
  item.querySelector("progress").setAttribute("aria-label", `Adding ${file.name}`);
  item.querySelector("button").setAttribute("aria-label", `Do not add ${file.name}`);
  element("clips").append(item);
  element("layout").removeAttribute("data-empty");
  const upload = { file, item, request: null };
  item.querySelector("button").addEventListener("click", () => {
    if (upload.request) upload.request.abort();
    else finish(upload);
  });
  return upload;
}

function finish(upload) {
  upload.item.remove();
  const index = uploads.indexOf(upload);
  if (index >= 0) uploads.splice(index, 1);
  if (!element("clips").childElementCount) element("layout").setAttribute("data-empty", "");
}

function sendNext(added) {
  if (sending || !uploads.length) return;
  const upload = uploads[0];
  const most = Number(element("layout").dataset.limit);
  if (upload.file.size > most * 1e9) {
    complain(`${upload.file.name} is larger than ${most} GB, the most that is taken. Cut it first.`);
    finish(upload);
    return sendNext(added);
  }
  sending = true;
  // Not `fetch`, which does not tell how far an upload is.
  const request = (upload.request = new XMLHttpRequest());
  request.open("POST", "/clips");
  request.responseType = "json";
  request.setRequestHeader("X-Qrsc", "1");
  request.setRequestHeader("X-Name", encodeURIComponent(upload.file.name));
  request.upload.addEventListener("progress", (event) => {
    upload.item.querySelector("progress").value = event.loaded / event.total;
  });
  request.addEventListener("loadend", () => {
    sending = false;
    finish(upload);
    if (request.status === 201) added(request.response.key);
    else if (request.status) complain(`${upload.file.name}: ${request.response?.error ?? "it was not taken."}`);
    else if (!request.aborted) complain(`${upload.file.name} was not added: the connection ended. Add it again.`);
    sendNext(added);
  });
  request.addEventListener("abort", () => (request.aborted = true));
  request.send(upload.file);
}

/* ---- the list ---- */

const items = new Map();

export function showClips(clips, chosen, choose) {
  for (const [key, item] of items) {
    if (!clips.some((clip) => clip.key === key)) {
      item.remove();
      items.delete(key);
    }
  }
  for (const clip of clips) {
    if (!items.has(clip.key)) items.set(clip.key, clipItem(clip, choose));
    refresh(items.get(clip.key), clip, clip.key === chosen);
  }
  element("layout").toggleAttribute("data-empty", !clips.length && !uploads.length);
}

function clipItem(clip, choose) {
  const item = document.createElement("li");
  item.className = "clip";
  item.innerHTML =
    '<button class="clip-open" type="button"><img alt="" width="64" height="48"><div><p class="clip-name"></p>' +
    '<p class="quiet small clip-state"></p></div></button><button class="clip-remove" type="button">×</button>';
  item.querySelector(".clip-name").textContent = clip.name;
  item.querySelector(".clip-open").addEventListener("click", () => choose(clip.key));
  const remove = item.querySelector(".clip-remove");
  remove.setAttribute("aria-label", `Remove ${clip.name}`);
  remove.addEventListener("click", () => send("DELETE", `/clips/${clip.key}`));
  const first = element("clips").querySelector(".clip:has(> .clip-open > .blank)"); // uploads stay below
  element("clips").insertBefore(item, first);
  return item;
}

function refresh(item, clip, chosen) {
  item.toggleAttribute("data-chosen", chosen);
  if (chosen) item.querySelector(".clip-open").setAttribute("aria-current", "true");
  else item.querySelector(".clip-open").removeAttribute("aria-current");
  const look = clip.tasks.look;
  const image = item.querySelector("img");
  if (look.state === "done" && !image.getAttribute("src")) image.src = `/clips/${clip.key}/look/${look.number}/first.jpg`;
  const state = item.querySelector(".clip-state");
  const words = stateInWords(clip);
  if (state.textContent !== words) state.textContent = words;
}

function stateInWords(clip) {
  const { run, preview, look } = clip.tasks;
  if (look.state === "failed") return "Not a clip that can be read";
  if (look.state !== "done") return "Reading";
  if (run) {
    if (run.state === "waiting") return run.place ? `In the queue, ${run.place} before it` : "In the queue";
    const { done, total, stage } = run.progress;
    if (run.state === "working") return stage === "calibrating" || !total ? "Working" : `${Math.round((100 * done) / total)} %`;
    return run.state === "done" ? "Corrected" : WORDS[run.state];
  }
  if (preview) return preview.state === "done" || (preview.state === "working" && preview.results) ? "Previewed" : `Preview: ${WORDS[preview.state].toLowerCase()}`;
  return "Ready";
}
