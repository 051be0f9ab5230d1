//! Sick, in Rust: threads that wait for locks which say nothing of their owner. Argument 1 says how. Names of threads are the truth:
//! `holds...` holds a lock that is waited for, `stuck...` holds one and waits for another, `waits...` waits and holds nothing,
//! `past...` had the lock and gave it back, `later...` will take it.

use std::hint::black_box;
use std::io::Read;
use std::sync::{Condvar, Mutex, MutexGuard, RwLock};
use std::thread;
use std::time::Duration;

struct Account {
    padding: u64,
    balance: Mutex<u64>,
}

struct Ledger {
    lines: RwLock<Vec<u64>>,
    total: Mutex<u64>,
}

type Work = Box<dyn FnOnce() + Send>;

fn sleep(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

fn for_ever() {
    sleep(3_600_000);
}

fn account() -> &'static Account {
    Box::leak(Box::new(Account { padding: 1, balance: Mutex::new(1) }))
}

#[inline(never)]
fn transfer(from: &Account, to: &Account) -> u64 {
    let from_balance = from.balance.lock().unwrap();
    sleep(200);
    let to_balance = to.balance.lock().unwrap();
    black_box(*from_balance + *to_balance + from.padding + to.padding)
}

#[inline(never)]
fn hold(account: &Account) -> u64 {
    let balance = account.balance.lock().unwrap();
    for_ever();
    *balance
}

#[inline(never)]
fn touched(account: &Account) -> u64 {
    {
        let balance = account.balance.lock().unwrap();
        black_box(*balance);
    }
    for_ever();
    black_box(account.padding)
}

#[inline(never)]
fn takes_later(account: &Account) -> u64 {
    for_ever();
    *account.balance.lock().unwrap()
}

#[inline(never)]
fn wants(account: &Account) -> u64 {
    sleep(300);
    *account.balance.lock().unwrap()
}

/// Holds it in every round, and sleeps inside.
#[inline(never)]
fn rounds(account: &Account) {
    for round in 0_u64.. {
        let mut balance = account.balance.lock().unwrap();
        *balance = black_box(round);
        for_ever();
    }
}

/// A guard that may have gone to somebody else.
#[inline(never)]
fn may_hand_over(account: &Account, slot: &mut Vec<MutexGuard<'static, u64>>, keep: bool, own: &'static Account) -> u64 {
    let guard = own.balance.lock().unwrap();
    if !keep {
        slot.push(guard);
        return black_box(account.padding);
    }
    for_ever();
    *guard
}

#[inline(never)]
fn given_back_early(account: &Account) -> u64 {
    let balance = account.balance.lock().unwrap();
    let value = *balance;
    drop(balance);
    for_ever();
    black_box(value)
}

#[inline(never)]
fn optional(account: &Account, take: bool) -> u64 {
    let guard = if black_box(take) { Some(account.balance.lock().unwrap()) } else { None };
    for_ever();
    guard.as_deref().copied().unwrap_or(7)
}

#[inline(never)]
fn inner_work(depth: u64) -> u64 {
    if depth == 0 {
        for_ever();
        return 1;
    }
    black_box(inner_work(depth - 1) + 1)
}

#[inline(never)]
fn hold_far_out(account: &Account) -> u64 {
    let balance = account.balance.lock().unwrap();
    black_box(inner_work(6)) + *balance
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let (a, b, c) = (account(), account(), account());
    let ledger: &'static Ledger = Box::leak(Box::new(Ledger { lines: RwLock::new(vec![1]), total: Mutex::new(1) }));
    let news: &'static (Mutex<bool>, Condvar) = Box::leak(Box::new((Mutex::new(false), Condvar::new())));
    let start = |name: &str, work: Work| {
        thread::Builder::new().name(name.to_owned()).spawn(work).expect("a thread can be started");
    };
    match mode.as_str() {
        "abba" => {
            start("stuck-1", Box::new(move || _ = transfer(a, b)));
            start("stuck-2", Box::new(move || _ = transfer(b, a)));
        }
        "ring" => {
            start("stuck-1", Box::new(move || _ = transfer(a, b)));
            start("stuck-2", Box::new(move || _ = transfer(b, c)));
            start("stuck-3", Box::new(move || _ = transfer(c, a)));
        }
        "holder" => {
            for number in 0..3 {
                start(&format!("past-{number}"), Box::new(move || _ = touched(a)));
            }
            sleep(50);
            start("past-early", Box::new(move || _ = given_back_early(a)));
            sleep(50);
            start("later", Box::new(move || _ = takes_later(a)));
            start("holds", Box::new(move || _ = hold(a)));
            for number in 0..4 {
                start(&format!("waits-{number}"), Box::new(move || _ = wants(a)));
            }
        }
        "far-out" => {
            start("holds", Box::new(move || _ = hold_far_out(a)));
            start("waits", Box::new(move || _ = wants(a)));
        }
        "rounds" => {
            start("holds", Box::new(move || rounds(a)));
            start("waits", Box::new(move || _ = wants(a)));
        }
        "hand-over" => {
            start("holds", Box::new(move || _ = may_hand_over(b, &mut Vec::new(), true, a)));
            start("waits", Box::new(move || _ = wants(a)));
        }
        "optional" => {
            start("holds", Box::new(move || _ = optional(a, true)));
            start("past", Box::new(move || _ = optional(a, false)));
            start("waits", Box::new(move || _ = wants(a)));
        }
        "self" => start("stuck", Box::new(move || {
            let first = a.balance.lock().unwrap();
            sleep(10);
            let second = a.balance.lock().unwrap();
            black_box(*first + *second);
        })),
        "upgrade" => {
            start("stuck", Box::new(move || {
                let lines = ledger.lines.read().unwrap();
                sleep(100);
                ledger.lines.write().unwrap().push(lines[0]);
            }));
            start("waits", Box::new(move || {
                sleep(300);
                black_box(ledger.lines.read().unwrap().len());
            }));
        }
        "read-write" => {
            start("stuck-1", Box::new(move || {
                let lines = ledger.lines.read().unwrap();
                sleep(200);
                *ledger.total.lock().unwrap() += lines[0];
            }));
            start("stuck-2", Box::new(move || {
                let total = ledger.total.lock().unwrap();
                sleep(200);
                ledger.lines.write().unwrap().push(*total);
            }));
        }
        "readers" => {
            for number in 0..2 {
                start(&format!("holds-{number}"), Box::new(move || {
                    let lines = ledger.lines.read().unwrap();
                    for_ever();
                    black_box(lines[0]);
                }));
            }
            sleep(100);
            start("waits-w", Box::new(move || ledger.lines.write().unwrap().push(1)));
            sleep(200);
            start("waits-r", Box::new(move || {
                black_box(ledger.lines.read().unwrap().len());
            }));
        }
        "writer" => {
            start("holds", Box::new(move || {
                let mut lines = ledger.lines.write().unwrap();
                for_ever();
                lines.push(1);
            }));
            sleep(100);
            start("waits", Box::new(move || {
                black_box(ledger.lines.read().unwrap().len());
            }));
        }
        "condition" => {
            start("past", Box::new(move || {
                let mut heard = news.0.lock().unwrap();
                while !*heard {
                    heard = news.1.wait(heard).unwrap();
                }
            }));
            sleep(100);
            start("holds", Box::new(move || {
                let heard = news.0.lock().unwrap();
                for_ever();
                black_box(*heard);
            }));
            sleep(100);
            start("waits", Box::new(move || {
                black_box(*news.0.lock().unwrap());
            }));
        }
        "lost-news" => {
            news.1.notify_one();
            news.1.notify_one();
            start("past", Box::new(move || {
                let heard = news.0.lock().unwrap();
                black_box(*news.1.wait(heard).unwrap());
            }));
        }
        other => panic!("what is {other:?}?"),
    }
    sleep(800);
    println!("READY {}", std::process::id());
    thread::Builder::new()
        .name("limit".to_owned())
        .spawn(|| {
            sleep(600_000);
            std::process::exit(3);
        })
        .expect("a thread can be started");
    let mut byte = [0];
    while matches!(std::io::stdin().read(&mut byte), Ok(1)) {}
}
