// Computes in known functions, between turns of the event loop.
function countUp(n) {
  let total = 0;
  for (let number = 0; number < n; number++) total += number * number % 7;
  return total;
}

function throughNative(n) {
  return [n, n].map((each) => countUp(each)).reduce((a, b) => a + b);
}

class Work {
  compute() {
    const end = Date.now() + 50;
    while (Date.now() < end) throughNative(20000);
    setImmediate(() => this.compute());
  }
}

process.stdin.on('end', () => process.exit()).resume();
console.log('READY');
new Work().compute();
