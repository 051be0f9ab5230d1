// The page behind a link, for who has no biopsy at hand: shows who asks and who will be able to read it, seals a file here, and sends it.

import { h } from '../src/dom';
import type { Child } from '../src/dom';
import { Sender, parseLink } from './protocol';
import type { Request } from './protocol';
import { Store } from './store';
import type { Begun } from './store';
import { seal, send } from './upload';

export { parseLink, Sender } from './protocol';
export { seal, send } from './upload';

function size(bytes: number): string {
  if (bytes < 10_000) return `${bytes} bytes`;
  if (bytes < 10_000_000) return `${Math.round(bytes / 1000)} kB`;
  return bytes < 1e10 / 4 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}

function wanted(request: Request): string {
  const { kind, seconds, target } = request.recipe;
  const of = target ? ` of ${target}` : '';
  if (kind === 'file') return 'a file that you have';
  if (kind === 'report') return 'the report on a file that you have, and not the file';
  return `a recording${of} of ${seconds ?? 60} s, which biopsy makes on the server itself; here you can send one that was made already`;
}

/** What is agreed to by sending, line by line. It goes along, and the lab keeps it. */
function plan(request: Request, link: string): [string, string][] {
  return [
    ['Who asks', request.lab],
    ['For', `case ${request.case}`],
    ['Asked for', wanted(request)],
    ['Readable by', request.readers.map((reader) => `${reader.name} (${reader.key})`).join(', ')],
    ['Sent to', `${link}, taken until ${new Date(request.expires * 1000).toLocaleString()}`],
    ['Kept for', `${request.kept_days} days at most, then deleted`],
    ['At most', size(request.max_bytes)],
  ];
}

async function show(main: HTMLElement): Promise<void> {
  const fill = (...children: Child[]) => main.replaceChildren(h('div', null, ...children));
  const link = parseLink(location.href);
  // Without the part behind # this page is the lab's plain one.
  if (!link) return;
  if (!window.isSecureContext) {
    fill(h('h1', null, 'This page needs https'), h('p', null, 'Whoever looks on could use the link. Ask for one that begins with https.'));
    return;
  }
  const store = await Store.open(link.id);
  const earlier = await store.begun();
  const seed = earlier?.seed ?? crypto.getRandomValues(new Uint8Array(32));
  const sender = new Sender(link, seed);
  let request: Request;
  try {
    request = await sender.request();
  } catch (error) {
    fill(h('h1', null, 'Nothing can be sent'), h('p', { class: 'bad', role: 'alert' }, String(error instanceof Error ? error.message : error)));
    return;
  }
  const rows = plan(request, `${link.lab}/r/${link.id}`);
  const facts = h('table', null, rows.map(([name, value]) => h('tr', null, h('th', { scope: 'row' }, name), h('td', null, value))));
  const status = h('p', { 'aria-live': 'polite' });
  const bar = h('progress', { max: 1, value: 0, hidden: true });
  const chosen = h('input', { type: 'file', id: 'file' });
  const agree = h('input', { type: 'checkbox', id: 'agree' });
  const button = h('button', { disabled: true }, 'Seal and send');
  const ready = () => {
    button.disabled = !(agree.checked && chosen.files?.length);
  };
  chosen.addEventListener('change', ready);
  agree.addEventListener('change', ready);
  const drop = h('div', { class: 'drop' }, h('label', { for: 'file' }, 'Choose a file, or drop it here: '), chosen);
  drop.addEventListener('dragover', (event) => event.preventDefault());
  drop.addEventListener('drop', (event) => {
    event.preventDefault();
    if (event.dataTransfer?.files.length) chosen.files = event.dataTransfer.files;
    ready();
  });
  const form = h(
    'div',
    null,
    drop,
    h('p', null, agree, ' ', h('label', { for: 'agree' }, 'I may send it, and it may be read by those named above.')),
    button,
  );
  const lasts = store.isLasting
    ? 'It is sealed in this browser, before anything is sent; nobody else can read it. If the connection breaks or the tab is closed, open this link again: it goes on from where it was.'
    : 'It is sealed in this browser, before anything is sent; nobody else can read it. Keep this tab open until it is done.';
  fill(h('h1', null, 'A request for evidence'), facts, form, h('p', { class: 'note' }, lasts), bar, status);

  const deliver = async (begun: Begun) => {
    form.hidden = true;
    bar.hidden = false;
    const { receipt, text } = await send(sender, await store.sealed(), begun.sealed, begun.consent, begun.upload, {
      at: (sent) => {
        bar.value = sent / begun.sealed.bytes;
        status.textContent = `Sent ${size(sent)} of ${size(begun.sealed.bytes)}`;
      },
      again: (why, seconds) => {
        status.textContent = `Cannot reach the lab (${why}); again in ${seconds.toFixed(1)} s`;
      },
      place: (upload) => store.save({ ...begun, upload }),
    });
    await store.forget();
    const address = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    fill(
      h('h1', null, 'Received'),
      h('p', null, `${begun.name}: ${size(receipt.bytes)}, sealed, at ${new Date(receipt.received * 1000).toLocaleString()}.`),
      h('p', null, 'SHA-256 ', h('code', null, receipt.sha256)),
      h('p', null, h('a', { href: address, download: `receipt-${receipt.case}.json` }, 'Keep the receipt'), ': it is signed, and holds the lab to what it promised.'),
    );
  };
  const failing = (work: Promise<void>) => {
    work.catch((error: unknown) => {
      form.hidden = false;
      bar.hidden = true;
      status.textContent = error instanceof Error ? error.message : String(error);
      status.className = 'bad';
    });
  };
  button.addEventListener('click', () => {
    const file = chosen.files?.[0];
    if (!file) return;
    form.hidden = true;
    bar.hidden = false;
    status.className = '';
    failing(
      (async () => {
        const sealed = await seal(file, request, await store.sink(), (done) => {
          bar.value = done / Math.max(1, file.size);
          status.textContent = `Sealing: ${size(done)} of ${size(file.size)}`;
        });
        const begun = { seed, name: file.name, sealed, consent: rows.map(([name, value]) => `${name}: ${value}`), upload: null };
        store.save(begun);
        await deliver(begun);
      })(),
    );
  });
  if (earlier) {
    // The lab takes nothing else for this link once it has given a place.
    form.hidden = earlier.upload !== null;
    const again = h('button', null, `Go on with ${earlier.name}`);
    const choice = h('p', null, again);
    form.before(choice);
    again.addEventListener('click', () => {
      choice.remove();
      failing(deliver(earlier));
    });
  }
}

// Under Node, where tests use what is exported, there is no document.
if (typeof document !== 'undefined') {
  const main = document.querySelector('main');
  if (main) void show(main as HTMLElement);
}
