// Subscribes this browser for the recipient whose token stands behind # in the address, and takes it back again.
"use strict";

const SCOPE = "/push-demo";
const PATIENCE_MS = 20_000;
const token = location.hash.slice(1);
const state = document.querySelector("#state");
const button = document.querySelector("#subscribe");
const list = document.querySelector("#targets");

function say(text, kind = "") {
  state.textContent = text;
  state.dataset.kind = kind;
}

async function call(method, path, body) {
  const answer = await fetch(`/api/v1/inbox/${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${token}`,
      ...(body ? { "Content-Type": "application/json" } : {}),
    },
    body: body && JSON.stringify(body),
  });
  // Forgotten already is forgotten too.
  if (method === "DELETE" && (answer.ok || answer.status === 404)) return null;
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.errors?.[0]?.detail ?? said.detail ?? said.title);
  return said;
}

async function subscription() {
  const registration = await navigator.serviceWorker.getRegistration(SCOPE);
  return registration?.pushManager.getSubscription();
}

async function subscribe() {
  if ((await Notification.requestPermission()) !== "granted") {
    throw new Error("This browser was told not to show notifications.");
  }
  const { public_key: applicationServerKey } = await call("GET", "push-key");
  await navigator.serviceWorker.register("/push-demo/sw.js", { scope: SCOPE });
  const { pushManager } = await navigator.serviceWorker.ready;
  await inTime(pushManager.subscribe({ userVisibleOnly: true, applicationServerKey }));
}

// A browser that cannot reach its maker's push service may ask for ever, and says nothing meanwhile.
function inTime(made) {
  const late = new Error("This browser's own push service does not answer: is it reached from this network?");
  return Promise.race([made, new Promise((_, fail) => setTimeout(fail, PATIENCE_MS, late))]);
}

async function unsubscribe(made) {
  await call("DELETE", "push-targets", { endpoint: made.endpoint });
  await made.unsubscribe();
}

async function show() {
  const made = await subscription();
  // Said again at every visit: it is still in use, and whoever is signed in now is the one to reach.
  if (made) await call("PUT", "push-targets", made.toJSON());
  const { data } = await call("GET", "push-targets");
  list.replaceChildren(...data.map(row));
  button.textContent = made ? "Stop" : "Notify me here";
  say(made ? "This browser is subscribed." : "This browser is not subscribed yet.", made ? "good" : "");
}

function row(target) {
  const item = document.createElement("li");
  const since = new Date(target.registered_at).toLocaleString();
  item.textContent = `${target.kind === "webpush" ? "Browser" : "Phone"} since ${since}`;
  return item;
}

button.addEventListener("click", async () => {
  button.disabled = true;
  say("One moment…");
  try {
    const made = await subscription();
    await (made ? unsubscribe(made) : subscribe());
    await show();
  } catch (error) {
    say(error.message, "bad");
  }
  button.disabled = false;
});

if (!token) {
  say("Open the address that waybill up printed: it ends with a token.", "bad");
} else if (!("serviceWorker" in navigator && "PushManager" in window)) {
  say("This browser knows no Web Push, or the page is not at https:// or localhost.", "bad");
} else {
  show().then(
    () => (button.disabled = false),
    (error) => say(error.message, "bad"),
  );
}
