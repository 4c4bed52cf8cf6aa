// Requests to the server that served this page. Addresses are relative, so that they carry its token.

export class ServerGone extends Error {}

// A request in the background, such as for the next picture, may find the server gone. The next
// decision reports that, so nothing else has to.
addEventListener("unhandledrejection", event => {
  if (event.reason instanceof ServerGone) event.preventDefault();
});

export class Refused extends Error {
  constructor(status, content) {
    super(content.error);
    this.status = status;
    this.content = content;
  }
}

async function request(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new ServerGone("The server does not answer.");
  }
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  const content = isJson ? await response.json() : { error: await response.text() };
  if (!response.ok) throw new Refused(response.status, content);
  return content;
}

export function get(name, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== "");
  return request(`api/${name}?${new URLSearchParams(given)}`);
}

export function post(name, content) {
  const headers = { "content-type": "application/json" };
  return request(`api/${name}`, { method: "POST", headers, body: JSON.stringify(content) });
}

export function pictureAddress(position, size) {
  return `pictures/${position}/${size}`;
}
