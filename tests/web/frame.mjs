// demo.html in a frame as narrow as a phone, for pages that use it; they post `report`.

export const report = { errors: [] };
addEventListener('unhandledrejection', ({ reason }) => report.errors.push(String(reason)));

export const frame = document.createElement('iframe');
frame.src = 'demo.html';
frame.style = 'width: 360px; height: 640px; border: 0';
const loaded = new Promise((resolve) => frame.addEventListener('load', resolve, { once: true }));
document.body.append(frame);
await loaded;

export const page = frame.contentDocument;
export const find = (selector) => page.querySelector(selector);
export const texts = (selector) => Array.from(page.querySelectorAll(selector), (node) => node.textContent);
