// Uses the pages that the example `demo_report` writes in a real browser, as a person would:
//   cargo run -p biopsy-report --example demo_report -- /tmp/demo && npm test -- /tmp/demo
// Needs Chromium: $CHROMIUM, or /usr/bin/chromium. Pictures of what it saw are put beside the pages.

import { chromium } from 'playwright-core';

const folder = process.argv[2] ?? '/tmp/demo';
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
});
let failures = 0;
const check = (ok, what) => {
  console.log(ok ? 'ok  ' : 'FAIL', what);
  if (!ok) failures += 1;
};

/** A page that may neither fail, nor ask, nor look anywhere. */
async function open(name, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.on('dialog', (dialog) => {
    check(false, `${name}: a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('console', (message) => check(false, `${name}: ${message.text()}`));
  page.on('pageerror', (error) => check(false, `${name}: ${error.stack}`));
  page.on('request', (request) => check(request.url().startsWith('file:'), `${name}: only asks for itself`));
  const start = Date.now();
  await page.goto(`file://${folder}/${name}`);
  console.log(`     ${name} opened in ${Date.now() - start} ms`);
  return page;
}

const page = await open('report.html');
const text = (selector) => page.locator(selector).first().textContent();
const go = (label) => page.locator('.finding .go').filter({ hasText: new RegExp(`^${label}$`) }).first().click();
const flashed = () => page.evaluate(() => document.querySelector('.flash')?.id || document.querySelector('.flash')?.textContent || '');

// The cursor shows one moment in all charts.
const plot = page.locator('#chart-system-cpu .plot');
await plot.scrollIntoViewIfNeeded();
const box = await plot.boundingBox();
const mean = await text('#chart-system-cpu .value');
await page.mouse.move(box.x + box.width * 0.55, box.y + 30);
check(await page.locator('.cursor').isVisible(), 'the cursor is there');
check((await text('.clock')).includes('11:27:36'), `the clock is that of the machine: ${await text('.clock')}`);
check((await text('#chart-system-cpu .value')) !== mean, 'the legend shows the values at the cursor');

// Dragging zooms all charts, the button shows all again, and so do the keys.
await page.mouse.move(box.x + box.width * 0.4, box.y + 30);
await page.mouse.down();
await page.mouse.move(box.x + box.width * 0.7, box.y + 30, { steps: 4 });
await page.mouse.up();
await page.mouse.move(5, 5);
check((await text('.clock')).startsWith('24.'), `dragging zooms: ${await text('.clock')}`);
await page.screenshot({ path: `${folder}/seen-zoom.png` });
await page.locator('.axis button').click();
check((await text('.clock')).startsWith('0.00 s to 60'), 'the button shows all');
await page.locator('.board').focus();
await page.keyboard.press('+');
check(!(await text('.clock')).includes('60.00 s'), `plus zooms: ${await text('.clock')}`);
await page.keyboard.press('Escape');
check((await text('.clock')).startsWith('0.00 s to 60'), 'Escape shows all');

// Evidence leads to its place.
await go('waiting flame graph');
check((await text('#flame .matches')).includes('%'), `the function is searched: ${await text('#flame .matches')}`);
check((await page.locator('#flame button[aria-pressed=true]').textContent()) === 'Waiting', 'among the waiting');
await page.waitForTimeout(800);
await page.screenshot({ path: `${folder}/seen-flame.png` });
for (const [label, place] of [['threads', 'conn-*'], ['chart', 'chart-throttled'], ['timeline', 'timeline'], ['flame graph', 'flame'], ['thread 4720', 'conn-0']]) {
  await page.waitForTimeout(2300);
  await go(label);
  await page.waitForTimeout(200);
  check((await flashed()).startsWith(place), `${label} leads to ${place}: ${(await flashed()).slice(0, 30)}`);
}

// The flame graph by pointer and keys.
await page.locator('#flame input').fill('');
await page.locator('#flame .choice button').first().click();
const canvas = page.locator('.flame canvas');
await canvas.scrollIntoViewIfNeeded();
const area = await canvas.boundingBox();
await page.mouse.move(area.x + 100, area.y + 19 * 4 + 8);
check(await page.locator('.tip').isVisible(), `the tip tells: ${await text('.tip')}`);
await page.mouse.click(area.x + 100, area.y + 19 * 4 + 8);
check(await page.getByText('zoom out').isVisible(), 'a click zooms in');
await canvas.focus();
await page.keyboard.press('Escape');
check(!(await page.getByText('zoom out').isVisible()), 'Escape zooms out');
await page.keyboard.press('ArrowDown');
await page.keyboard.press('ArrowDown');
check((await text('.status')).length > 5, `arrows walk: ${await text('.status')}`);
await page.locator('#flame select').selectOption('2');
check((await text('#flame .note')).includes('CPU time'), `one thread: ${await text('#flame .note')}`);

// Tables filter and switch, also while nothing is found.
await page.locator('#functions input').fill('malloc');
check((await page.locator('#functions tbody tr').count()) === 3, 'functions are filtered');
await page.locator('#functions .choice button', { hasText: 'Waiting' }).click();
check((await text('#functions tbody')).includes('no such function'), 'nothing found is said');
await page.locator('#functions input').fill('');
check((await text('#functions tbody tr')).includes('schedule'), 'waiting functions');
await page.locator('#threads input').fill('conn-3');
check((await page.locator('#threads tbody tr').count()) === 1, 'threads are filtered');
await page.locator('#threads th button', { hasText: 'CPU' }).click();
await page.locator('.completeness summary').click();
check((await text('.undetermined')).includes('PMU'), 'what could not be determined opens');
await page.pdf({ path: `${folder}/seen.pdf`, format: 'A4', printBackground: true });

// Dark, and a phone: nothing is wider than the screen.
for (const [name, options] of [['dark', { colorScheme: 'dark' }], ['phone', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true }]]) {
  const other = await open('report.html', options);
  const [wide, screen] = await other.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  check(wide <= screen, `${name}: ${wide} of ${screen} px wide`);
  await other.waitForTimeout(200);
  await other.screenshot({ path: `${folder}/seen-${name}.png`, fullPage: true });
  await other.context().close();
}

// What a runtime said: tables that filter together, evidence that leads into them, times that lead to the timeline.
for (const [name, options] of [['runtime', {}], ['runtime-dark', { colorScheme: 'dark' }], ['runtime-phone', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true }]]) {
  const other = await open('dotnet.html', options);
  await other.waitForTimeout(250);
  const [wide, screen] = await other.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  check(wide <= screen, `${name}: ${wide} of ${screen} px wide`);
  await other.screenshot({ path: `${folder}/seen-${name}.png`, fullPage: true });
  if (name === 'runtime') {
    const sheet = (title) => other.locator('#runtimes .choice button', { hasText: title }).first().click();
    const rows = other.locator('#runtimes .sheet tbody tr');
    for (const title of ['Requests', 'Slowest requests', 'Outgoing', 'Commands', 'Exceptions', 'Lock waits', 'Allocations', 'Collections', 'Thread pool', 'Messages', 'Log', 'Counters']) {
      await sheet(title);
      check((await rows.count()) > 0, `${title}: ${await rows.count()} rows`);
      await other.locator('#runtimes').screenshot({ path: `${folder}/seen-runtime-${title.toLowerCase().replace(' ', '-')}.png` });
    }
    await sheet('Exceptions');
    await other.locator('#runtimes .calls summary').first().click();
    check(await other.locator('#runtimes .calls li').first().isVisible(), 'a stack opens');
    await other.locator('#runtimes input').fill('formatexception');
    check((await rows.count()) === 1, 'one search filters all tables');
    check((await other.locator('#runtimes .choice .nothing').count()) > 3, 'tables without a hit are dimmed');
    await other.locator('.finding .go').filter({ hasText: /^exceptions$/ }).first().click();
    await other.waitForTimeout(300);
    check((await other.locator('.flash').first().textContent()).includes('FormatException'), 'evidence leads to its row');
    check((await other.locator('#runtimes input').inputValue()) === '', 'and is not filtered away');
    await sheet('Slowest requests');
    await rows.first().locator('button').first().click();
    check(!(await other.locator('.clock').first().textContent()).includes('0.00 s to 60'), 'a time leads to the timeline');
    await other.waitForTimeout(900);
    await other.screenshot({ path: `${folder}/seen-runtime-zoom.png` });
  }
  await other.context().close();
}

// Little or nothing, and names that try to be markup.
const others = ['empty.html', ...Array.from({ length: 8 }, (_, seed) => `hostile-${seed}.html`)];
for (const name of others) {
  const other = await open(name);
  await other.waitForTimeout(150);
  const heard = await other.evaluate(() => (JSON.parse(document.getElementById('data').textContent).report.runtimes ?? []).length);
  check((await other.locator('main > section').count()) === (heard > 0 ? 9 : 8), `${name}: all sections`);
  check((await other.locator('main').textContent()).includes('could not be drawn') === false, `${name}: all are drawn`);
  check((await other.locator('#page img, #page script, #page iframe, #page a[href^=javascript]').count()) === 0, `${name}: no elements from names`);
  await other.screenshot({ path: `${folder}/seen-${name.replace('.html', '.png')}`, fullPage: true });
  await other.context().close();
}

await browser.close();
console.log(failures === 0 ? 'all well' : `${failures} failures`);
process.exitCode = failures === 0 ? 0 : 1;
