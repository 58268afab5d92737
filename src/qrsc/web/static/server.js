// Requests to the server, and messages when they fail.

export async function send(method, path, body) {
  try {
    const answer = await fetch(path, {
      method,
      headers: { "X-Qrsc": "1", "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const content = await answer.json();
    if (!answer.ok) complain(content.error);
    return answer.ok ? content : null;
  } catch {
    complain("The server does not answer. Is `qrsc web` still running in its terminal?");
    return null;
  }
}

export function complain(text) {
  const place = document.getElementById("messages");
  const message = document.createElement("div");
  message.className = "message";
  const words = document.createElement("p");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "×";
  close.setAttribute("aria-label", "Close this message");
  close.addEventListener("click", () => message.remove());
  message.append(words, close);
  place.append(message);
  while (place.childElementCount > 3) place.firstElementChild.remove();
}
