//! Calls clients as if it had accepted their connections, and keeps the calls.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::neighbour::{self, kind};

/// Begins the abstract name of a client.
const NAME: &str = "@smc-d-client.";
/// Calls that it keeps.
const KEPT: usize = 200;

/// Prints `claiming`, and calls every client of its network namespace again and again until the
/// line `end`. Prints `met` at the first call, and at the end `claimed CALLS`.
pub(super) fn run(_: &[String]) -> io::Result<()> {
    static OVER: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let mut lines = io::stdin().lock().lines().map_while(Result::ok);
        let _ = lines.find(|line| line == "end");
        OVER.store(true, Ordering::Relaxed);
    });
    println!("claiming");
    let (mut kept, mut calls) = (VecDeque::new(), 0_u64);
    while !OVER.load(Ordering::Relaxed) {
        let list = std::fs::read_to_string("/proc/thread-self/net/unix")?;
        let names = list
            .lines()
            .filter_map(|line| line.split_whitespace().nth(7));
        for name in names.filter(|name| name.starts_with(NAME)) {
            // One that is decided meanwhile has no name.
            let Ok(call) = neighbour::call_name_at_once(&name[1..]) else {
                continue;
            };
            let _ = neighbour::send(&call, (kind::MINE, [calls, 0xa77a_c000, 0, 1, 0]), None);
            calls += 1;
            if calls == 1 {
                println!("met");
            }
            kept.push_back(call);
            if kept.len() > KEPT {
                kept.pop_front();
            }
        }
    }
    println!("claimed {calls}");
    Ok(())
}
