// Waits for good in the way that is named by the first argument. With a second argument it says its own stack right before, as
// one line of JSON, and without it does the same silently: V8 finds lines out only when it is asked, and who compares the two
// must not have asked.
const [, , mode, loud] = process.argv;
Error.stackTraceLimit = Infinity;
function say() { require("fs").writeSync(1, `READY ${loud ? JSON.stringify(new Error().stack) : ""}\n`); }
function rest() { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); }

class Orders {
    static all(count) { return new Orders(count); }
    #size = 0;
    constructor(count) { this.#size = count; this.recompute(count); }
    recompute(count) {
        const several = [count, 2];
        several.forEach((one) => {
            if (one === count) this.inner(one, 1, 2, "three");
        });
    }
    get total() { say(); rest(); return this.#size; }
    inner(one, ...others) {
        let a = 1, b = 2, c = 3;
        const captures = () => a + b + c + others.length;
        if (captures() < 0) return;
        return [3, 1, 2].sort((left, right) => {
            void this.total;
            return left - right;
        });
    }
}

function deep(depth) {
    if (depth === 0) return Orders.all(4);
    if (depth % 2) {
        return deep(depth - 1);
    }
    return [depth].map((one) => deep(one - 1))[0];
}

const byName = {
    plain: () => deep(6),
    timer() { setTimeout(function tick() { deep(2); }, 1); },
    promise: async () => { await null; deep(3); },
    replaced: () => "abc".replace(/b/, function swap() { deep(1); return "x"; }),
    parsed: () => JSON.parse('{"a":1}', function revive(key, value) { deep(2); return value; }),
    generated: () => { function* numbers() { deep(1); yield 1; } for (const one of numbers()) void one; },
    evaluated: () => { const made = new Function("deep", "\n\n  deep(2);\n"); made(deep); },
    module: () => { require("vm").runInThisContext("(function outer(deep) {\n deep(2);\n})", { filename: "inline.js" })(deep); },
    emitted: () => { const bus = new (require("events"))(); bus.on("go", function onGo() { deep(2); }); bus.emit("go"); },
    worker: () => {
        const { Worker, isMainThread } = require("worker_threads");
        if (isMainThread) new Worker(__filename, { argv: [mode, loud].filter(Boolean) });
        else deep(4);
    },
    warm: () => { let sum = 0; function add(a, b) { return a + b; } for (let i = 0; i < 2_000_000; i++) sum = add(sum, i); deep(2); },
};
byName[mode]();
process.stdin.resume();
