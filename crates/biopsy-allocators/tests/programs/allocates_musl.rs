//! Holds boxes, texts and a large vector, and says how many blocks these are, and of how many bytes.

use std::io::{Read, Write};
use std::sync::Mutex;

#[derive(Default)]
struct Held {
    boxes: Vec<Box<[u64; 20]>>,
    texts: Vec<String>,
    large: Vec<u8>,
}

static HELD: Mutex<Held> = Mutex::new(Held { boxes: Vec::new(), texts: Vec::new(), large: Vec::new() });

fn fill(from: u64) {
    for number in from..from + 30_000 {
        let mut held = HELD.lock().unwrap();
        held.boxes.push(Box::new([number; 20]));
        held.texts.push("text ".repeat((number % 90) as usize + 1));
        held.large.extend_from_slice(&[1; 100]);
        if number % 3 == 0 {
            let at = (number * 7919) as usize % held.texts.len();
            held.texts.swap_remove(at);
        }
    }
}

fn main() {
    let threads: Vec<_> = (0..3).map(|turn| std::thread::spawn(move || fill(turn * 30_000))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let held = HELD.lock().unwrap();
    let count = held.boxes.len() + held.texts.len() + 3;
    let bytes = held.boxes.len() * 160
        + held.texts.iter().map(String::capacity).sum::<usize>()
        + held.boxes.capacity() * 8
        + held.texts.capacity() * size_of::<String>()
        + held.large.capacity();
    drop(held);
    let mut out = std::io::stdout();
    write!(out, "READY {}\nCOUNTED {count} {bytes}\n", std::process::id()).unwrap();
    out.flush().unwrap();
    let _ = std::io::stdin().read(&mut [0; 1]);
}
