// Opens a `.heapsnapshot` with the loader of Chrome's DevTools, and prints what it counted:
//   node --experimental-websocket test/heapsnapshot.mjs FILE
// Needs Chromium: $CHROMIUM, or /usr/bin/chromium.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import http from 'node:http';
const [file] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), 'devtools-'));
const chrome = spawn(process.env.CHROMIUM ?? '/usr/bin/chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0', '--remote-allow-origins=*', `--user-data-dir=${profile}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'pipe'] });
const end = () => { chrome.kill('SIGKILL'); try { rmSync(profile, { recursive: true, force: true, maxRetries: 5 }); } catch {} };
try {
  const ws = await new Promise((done, fail) => {
    let text = '';
    chrome.stderr.on('data', (d) => { text += d; const m = /ws:\/\/[^\s]+/.exec(text); if (m) done(m[0]); });
    chrome.on('exit', () => fail(new Error(text)));
  });
  const port = new URL(ws).port;
  const get = (path, method = 'GET') => new Promise((done, fail) => {
    http.request({ host: '127.0.0.1', port, path, method }, (r) => { let t = ''; r.on('data', (d) => (t += d)); r.on('end', () => done([r.statusCode, t])); }).on('error', fail).end();
  });
  console.log(JSON.parse((await get('/json/version'))[1]).Browser);
  const page = `http://127.0.0.1:${port}/devtools/devtools_app.html`;
  console.log('page', (await get('/devtools/devtools_app.html'))[0]);
  const target = JSON.parse((await get(`/json/new?${encodeURIComponent(page)}`, 'PUT'))[1]);
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  await new Promise((done) => (socket.onopen = done));
  let last = 0;
  const waiting = new Map();
  socket.onmessage = ({ data }) => { const m = JSON.parse(data); if (m.id) waiting.get(m.id)?.(m); };
  const call = (method, params) => new Promise((done) => { waiting.set(++last, done); socket.send(JSON.stringify({ id: last, method, params })); });
  const evaluate = async (expression) => {
    const { result, error } = await call('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (error) throw new Error(JSON.stringify(error));
    if (result.exceptionDetails) throw new Error(JSON.stringify(result.exceptionDetails).slice(0, 1500));
    return result.result.value;
  };
  await new Promise((done) => setTimeout(done, 3000));
  console.log(await evaluate('location.href + " " + document.title'));
  const text = readFileSync(file, 'utf8');
  await evaluate('window.__text = []; 1');
  for (let at = 0; at < text.length; at += 1 << 22) {
    await evaluate(`window.__text.push(${JSON.stringify(text.slice(at, at + (1 << 22)))}); 1`);
  }
  const counted = await evaluate(`(async () => {
    const names = {};
    let HeapSnapshotWorkerProxy;
    for (const path of ['./panels/profiler/profiler.js', './models/heap_snapshot/heap_snapshot.js', './models/heap_snapshot_model/heap_snapshot_model.js']) {
      try { const m = await import(path); names[path] = Object.keys(m); for (const k of Object.keys(m)) { if (m[k].HeapSnapshotWorkerProxy) HeapSnapshotWorkerProxy = m[k].HeapSnapshotWorkerProxy; } } catch (e) { names[path] = String(e); }
    }
    if (!HeapSnapshotWorkerProxy) return names;
    const worker = new HeapSnapshotWorkerProxy(() => {});
    const snapshot = await new Promise((done) => {
      const loader = worker.createLoader(1, done);
      (async () => { for (const part of window.__text) await loader.write(part); await loader.close(); })();
    });
    const statistics = await snapshot.getStatistics();
    return { nodes: snapshot.staticData.nodeCount, bytes: snapshot.staticData.totalSize, statistics };
  })()`);
  console.log(JSON.stringify(counted));
} finally { end(); }
