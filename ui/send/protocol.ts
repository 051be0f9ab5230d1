// What the lab and a browser say to each other: the link, signed documents, calls with their proof. The same as crates/biopsy-deliver, which says why.

import { ed25519 } from '@noble/curves/ed25519.js';
import { sha256 } from '@noble/hashes/sha2.js';

/** Base64 for addresses, without padding. */
export function encode(bytes: Uint8Array): string {
  return standard(bytes).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

/** Base64 as headers have it. */
export function standard(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** The bytes of such a text, if there are exactly so many and it is written in the one right way. */
export function decode(text: string, length: number): Uint8Array | null {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) return null;
  try {
    const bytes = Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (one) => one.charCodeAt(0));
    return bytes.length === length && encode(bytes) === text ? bytes : null;
  } catch {
    return null;
  }
}

export function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function withKind(kind: string, text: string): Uint8Array {
  return new TextEncoder().encode(`biopsy ${kind} 1\n${text}`);
}

/** The first half of a digest of keys. */
export function fingerprint(kind: string, keys: string[]): string {
  return encode(sha256(withKind(kind, keys.join('\n'))).slice(0, 16));
}

export interface Link {
  lab: string;
  id: string;
  secret: string;
  signer: string;
  readers: string;
}

/** A link, if this is a whole one. */
export function parseLink(text: string): Link | null {
  const match = /^(https?:\/\/[^/#@?\\"<>{}|^`\s]+)\/r\/([A-Za-z0-9_-]+)#([^.]+)\.([^.]+)\.([^.]+)$/.exec(text.trim());
  if (!match) return null;
  const [, lab, id, secret, signer, readers] = match;
  const isWhole = decode(id, 16) && decode(secret, 32) && decode(signer, 16) && decode(readers, 16);
  return isWhole ? { lab, id, secret, signer, readers } : null;
}

export interface Request {
  id: string;
  lab: string;
  case: string;
  recipe: { kind: string; seconds?: number; target?: string };
  readers: { name: string; key: string }[];
  expires: number;
  max_bytes: number;
  kept_days: number;
}

export interface Receipt {
  request: string;
  case: string;
  bytes: number;
  sha256: string;
  received: number;
}

/** A document that whoever the link names has signed. */
export function verified<D>(kind: string, text: string, signer: string): D {
  const signed = JSON.parse(text) as { kind: string; document: string; signer: string; signature: string };
  const key = decode(signed.signer, 32);
  const signature = decode(signed.signature, 64);
  if (signed.kind !== kind || !key || !signature) throw new Unbelievable(kind);
  if (fingerprint('signer', [signed.signer]) !== signer) throw new Unbelievable(kind);
  // As RFC 8032 has it: no keys and signatures of unusual form.
  if (!ed25519.verify(signature, withKind(kind, signed.document), key, { zip215: false })) throw new Unbelievable(kind);
  return JSON.parse(signed.document) as D;
}

/** What the lab says is not what the link says. */
export class Unbelievable extends Error {
  constructor(kind: string) {
    super(`The ${kind} that this lab shows is not the one that your link is for. Do not send anything, and ask whoever gave you the link.`);
  }
}

/** The lab takes it no more, or never did. */
export class Refused extends Error {
  constructor() {
    super('The lab does not take it: there is no such request, or it is over, used by somebody else, or revoked.');
  }
}

/** Something passing: it is tried again. */
export class Passing extends Error {}

const SIGNED = ['upload-offset', 'upload-length', 'upload-checksum', 'upload-metadata'];

/** One sender of one link. */
export class Sender {
  private readonly key: string;
  /** Pieces go as a POST that says that it is a PATCH (tus 1.0): something on the way lets no PATCH through. */
  private byPost = false;

  constructor(
    readonly link: Link,
    readonly seed: Uint8Array,
  ) {
    this.key = encode(ed25519.getPublicKey(seed));
  }

  /** One call, with the secret and the proof. */
  async call(method: string, path: string, headers: Record<string, string> = {}, body?: Uint8Array): Promise<Response> {
    const text = [method, path, ...SIGNED.map((name) => headers[name] ?? '-')].join('\n');
    const proof = encode(ed25519.sign(withKind('call', text), this.seed));
    const all: Record<string, string> = { 'tus-resumable': '1.0.0', authorization: `Bearer ${this.link.secret}`, 'biopsy-key': this.key, 'biopsy-proof': proof, ...headers };
    const isPiece = method === 'PATCH';
    const verb = isPiece && this.byPost ? 'POST' : method;
    if (verb !== method) all['x-http-method-override'] = method;
    let response: Response;
    try {
      response = await fetch(this.link.lab + path, { method: verb, headers: all, body: body as BodyInit | undefined, cache: 'no-store', credentials: 'omit', redirect: 'error' });
    } catch (error) {
      if (isPiece) this.byPost = !this.byPost;
      throw new Passing(error instanceof Error ? error.message : String(error));
    }
    if (response.status === 404) throw new Refused();
    const isForbidden = isPiece && !this.byPost && [403, 405, 501].includes(response.status);
    if (isForbidden) this.byPost = true;
    const passing = [408, 409, 423, 425, 429, 460, 500, 502, 503, 504, 507];
    if (isForbidden || passing.includes(response.status)) throw new Passing(`the lab answered ${response.status}`);
    if (!response.ok) throw new Error(`The lab answered ${response.status} to ${method}: ${(await response.text()).slice(0, 200)}`);
    return response;
  }

  /** What is asked for: of the lab that gave the link, and for the keys that the link says. */
  async request(): Promise<Request> {
    const text = await (await this.call('GET', `/api/requests/${this.link.id}`)).text();
    const request = verified<Request>('request', text, this.link.signer);
    const keys = request.readers.map((reader) => reader.key);
    if (request.id !== this.link.id || fingerprint('readers', keys) !== this.link.readers) throw new Unbelievable('request');
    return request;
  }
}
