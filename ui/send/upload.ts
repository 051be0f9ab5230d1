// From a file to the lab: sealed piece by piece into a file of this browser's own, then sent, and sent on after any cut.

import { sha256 } from '@noble/hashes/sha2.js';
import { Encrypter } from 'age-encryption';
import { Passing, Refused, hexadecimal, standard, verified } from './protocol';
import type { Receipt, Request, Sender } from './protocol';

const UPLOADS = '/api/uploads';
const SMALLEST = 256 << 10;
const LARGEST = 16 << 20;
/** Longest time without progress, in milliseconds. */
const PATIENCE = 600_000;

/** What was sealed. */
export interface Sealed {
  bytes: number;
  sha256: string;
}

/** Where ciphertext goes while it is made. */
export interface Sink {
  write(piece: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

/** Seals a file to the readers of the request. Nothing of it is kept as it was. */
export async function seal(file: Blob, request: Request, sink: Sink, progress: (done: number) => void): Promise<Sealed> {
  const encrypter = new Encrypter();
  for (const reader of request.readers) encrypter.addRecipient(reader.key);
  let done = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(piece, controller) {
      done += piece.length;
      progress(done);
      controller.enqueue(piece);
    },
  });
  const sealed = await encrypter.encrypt(file.stream().pipeThrough(counted));
  const digest = sha256.create();
  const reader = sealed.getReader();
  let bytes = 0;
  for (;;) {
    const { done: isOver, value } = await reader.read();
    if (isOver) break;
    digest.update(value);
    bytes += value.length;
    if (bytes > request.max_bytes) throw new Error(`The lab takes at most ${request.max_bytes} bytes for this request.`);
    await sink.write(value);
  }
  await sink.close();
  return { bytes, sha256: hexadecimal(digest.digest()) };
}

export interface Watch {
  at(sent: number): void;
  again(why: string, seconds: number): void;
  /** The lab gave this place: to be kept for going on. */
  place(upload: string): void;
}

/** Sends what was sealed, or what is left of it; gives the receipt as the lab signed it. */
export async function send(sender: Sender, sealed: Blob, of: Sealed, consent: string[], kept: string | null, watch: Watch): Promise<{ receipt: Receipt; text: string }> {
  const persistently = persist(watch);
  const begin = async (known: string | null): Promise<[string, number]> => {
    const upload = known ?? (await persistently(() => place(sender, of, consent)));
    watch.place(upload);
    return [upload, await persistently(() => offset(sender, upload))];
  };
  // The place of an earlier visit may have expired: another one is asked for, once.
  const [upload, begun] = await begin(kept).catch((error: unknown) => {
    if (kept && error instanceof Refused) return begin(null);
    throw error;
  });
  let at = begun;
  let size = SMALLEST * 4;
  while (at < of.bytes) {
    watch.at(at);
    const from = at;
    const started = performance.now();
    at = await persistently(async () => {
      const piece = new Uint8Array(await sealed.slice(from, from + size).arrayBuffer());
      try {
        await sender.call(
          'PATCH',
          upload,
          { 'upload-offset': String(from), 'upload-checksum': `sha256 ${standard(sha256(piece))}`, 'content-type': 'application/offset+octet-stream' },
          piece,
        );
        return from + piece.length;
      } catch (error) {
        if (!(error instanceof Passing)) throw error;
        size = Math.max(SMALLEST, size >> 2);
        // It may have arrived all the same.
        const now = await offset(sender, upload);
        if (now > from) return now;
        throw error;
      }
    });
    if (performance.now() - started < 2000) size = Math.min(LARGEST, size * 2);
  }
  watch.at(of.bytes);
  const text = await persistently(async () => {
    const answer = await sender.call('GET', `${upload}/receipt`);
    if (answer.status === 202) throw new Passing('the lab checks what it got');
    return answer.text();
  });
  const receipt = verified<Receipt>('receipt', text, sender.link.signer);
  if (receipt.request !== sender.link.id || receipt.bytes !== of.bytes || receipt.sha256 !== of.sha256) {
    throw new Error('The receipt is for other bytes than were sent.');
  }
  return { receipt, text };
}

async function place(sender: Sender, of: Sealed, consent: string[]): Promise<string> {
  const pair = (name: string, value: string) => `${name} ${standard(new TextEncoder().encode(value))}`;
  const metadata = [pair('sha256', of.sha256), pair('consent', JSON.stringify(consent))].join(',');
  const answer = await sender.call('POST', `${UPLOADS}?request=${sender.link.id}`, { 'upload-length': String(of.bytes), 'upload-metadata': metadata });
  const id = (answer.headers.get('location') ?? '').split('/').pop() ?? '';
  if (!/^[A-Za-z0-9_-]+$/.test(id)) throw new Error('The lab gave no place to send to.');
  return `${UPLOADS}/${id}`;
}

async function offset(sender: Sender, upload: string): Promise<number> {
  const answer = await sender.call('HEAD', upload);
  return Number(answer.headers.get('upload-offset'));
}

/** Does something again while it fails in a way that passes, at longer and longer intervals. */
function persist(watch: Watch): <T>(what: () => Promise<T>) => Promise<T> {
  return async (what) => {
    const begun = performance.now();
    for (let tries = 0; ; tries += 1) {
      try {
        return await what();
      } catch (error) {
        if (!(error instanceof Passing) || performance.now() - begun > PATIENCE) throw error;
        const pause = Math.min(20_000, 200 * 2 ** tries) * (0.5 + Math.random() / 2);
        watch.again(error.message, pause / 1000);
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  };
}
