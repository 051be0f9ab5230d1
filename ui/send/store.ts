// What a browser keeps until the receipt is there: the sealed file, in a folder that belongs to this page alone, and how far it is.

import { decode, encode } from './protocol';
import type { Sealed, Sink } from './upload';

/** What was begun. */
export interface Begun {
  seed: Uint8Array;
  name: string;
  sealed: Sealed;
  consent: string[];
  upload: string | null;
}

const key = (id: string) => `biopsy-request-${id}`;

async function folder(): Promise<FileSystemDirectoryHandle | null> {
  try {
    // Older Safari has the folder, and no way to write to it from a page.
    if (!('createWritable' in FileSystemFileHandle.prototype)) return null;
    return await navigator.storage.getDirectory();
  } catch {
    return null;
  }
}

/** A place for ciphertext. Where the browser has no files of its own, it is in memory, and gone with the tab. */
export class Store {
  private pieces: BlobPart[] = [];

  private constructor(
    private readonly id: string,
    private readonly files: FileSystemDirectoryHandle | null,
  ) {}

  static async open(id: string): Promise<Store> {
    return new Store(id, await folder());
  }

  /** Whether it outlives the tab. */
  get isLasting(): boolean {
    return this.files !== null;
  }

  async sink(): Promise<Sink> {
    if (!this.files) {
      this.pieces = [];
      return { write: async (piece) => void this.pieces.push(piece.slice()), close: async () => {} };
    }
    const file = await this.files.getFileHandle(key(this.id), { create: true });
    const writable = await file.createWritable();
    return { write: (piece) => writable.write(piece as unknown as FileSystemWriteChunkType), close: () => writable.close() };
  }

  async sealed(): Promise<Blob> {
    if (!this.files) return new Blob(this.pieces);
    return (await this.files.getFileHandle(key(this.id))).getFile();
  }

  save(begun: Begun): void {
    if (this.files) localStorage.setItem(key(this.id), JSON.stringify({ ...begun, seed: encode(begun.seed) }));
  }

  /** What an earlier visit began, if its sealed file is whole. */
  async begun(): Promise<Begun | null> {
    try {
      const kept = JSON.parse(localStorage.getItem(key(this.id)) ?? 'null') as (Omit<Begun, 'seed'> & { seed: string }) | null;
      const seed = kept && decode(kept.seed, 32);
      if (!kept || !seed || (await this.sealed()).size !== kept.sealed.bytes) return null;
      return { ...kept, seed };
    } catch {
      return null;
    }
  }

  async forget(): Promise<void> {
    this.pieces = [];
    localStorage.removeItem(key(this.id));
    await this.files?.removeEntry(key(this.id)).catch(() => {});
  }
}
