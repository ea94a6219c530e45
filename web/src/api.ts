// Requests to the server of this page: sessions, data, changes, sockets. No other host gets a request.

import type { DraftView } from "./types";

const HEADERS = { "X-Constel": "1" };

export class Refused extends Error {}

async function told<T>(answer: Response): Promise<T> {
  const body = await answer.json();
  if (!answer.ok) throw new Refused(body.error ?? `status ${answer.status}`);
  return body as T;
}

/** Exchanges the token of the address for a session; with one already, does nothing. */
export async function session(token: string): Promise<void> {
  await told(await fetch("/api/session", { method: "POST", headers: HEADERS, body: token }));
}

export async function get<T>(path: string, asked: Record<string, string | number> = {}): Promise<T> {
  const query = new URLSearchParams(Object.entries(asked).map(([key, value]) => [key, String(value)]));
  return told<T>(await fetch(`/api/${path}?${query}`));
}

/** Changes the lab; the server refuses unless it was started with `--write`. */
export async function change<T>(order: unknown): Promise<T> {
  return told<T>(await fetch("/api/do", { method: "POST", headers: HEADERS, body: JSON.stringify(order) }));
}

/** Captures frames for some seconds: a pcapng file. */
export async function capture(order: { of: string; for_s: number; filter?: string }): Promise<ArrayBuffer> {
  const answer = await fetch("/api/do", { method: "POST", headers: HEADERS, body: JSON.stringify({ capture: order }) });
  if (!answer.ok) await told(answer);
  return answer.arrayBuffer();
}

/** Has a draft of a scenario checked and planned. */
export async function draft(text: string): Promise<DraftView> {
  return told<DraftView>(await fetch("/api/draft", { method: "POST", headers: HEADERS, body: text }));
}

export function socket(path: string): WebSocket {
  const socket = new WebSocket(`ws://${location.host}/api/${path}`);
  socket.binaryType = "arraybuffer";
  return socket;
}
