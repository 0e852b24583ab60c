// Shows what Waybill pushes, and opens its link on a tap. The payload: title, body, tag, link, icon, lang, badge, data.
"use strict";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const message = read(event.data);
  if ("badge" in message) navigator.setAppBadge?.(message.badge);
  event.waitUntil(
    self.registration.showNotification(message.title ?? "", {
      body: message.body,
      // A repeat of the same job takes the place of the first, silently.
      tag: message.tag,
      icon: message.icon,
      lang: message.lang,
      data: { ...message.data, link: message.link },
    }),
  );
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const link = event.notification.data?.link;
  if (link) event.waitUntil(open(link));
});

function read(data) {
  try {
    return data?.json() ?? {};
  } catch {
    return { title: data.text() };
  }
}

async function open(link) {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const there = windows.find((one) => one.url === link);
  return there ? there.focus() : self.clients.openWindow(link);
}
