//! `smcx top`: connections and link groups, live.

pub mod app;
pub mod draw;
pub mod model;

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use tokio::signal::unix::SignalKind;

use crate::cli::TopArguments;
use crate::net::Signals;
use crate::output::{Failure, Screen};
use app::{App, Flow};
use model::Source;

/// Longest wait for a key: a signal ends the command behind it.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Shows the screen until a key or a signal ends it.
///
/// # Errors
/// There is no terminal, `/proc` cannot be read, or the terminal cannot be written.
pub fn run(
    arguments: &TopArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "top needs a terminal; for programs and files there are \"smcx ss --watch --json\" and \
             \"smcx metrics\""
                .to_owned(),
        ));
    }
    let ended = signals().map_err(|error| crate::net::problem("signals", &error))?;
    let mut app = App {
        sort: arguments.sort,
        filter: arguments.filter.clone(),
        colours: screen.colours,
        ..App::default()
    };
    let interval = Duration::from_secs(arguments.interval);
    enable_raw_mode()?;
    let _restored = Restored;
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
    show(&mut app, interval, stdout, &ended)
}

/// Leaves the terminal as it was, whatever has happened.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // It may be gone.
        let _ = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

fn show(
    app: &mut App,
    interval: Duration,
    out: &mut dyn Write,
    ended: &AtomicBool,
) -> Result<(), Failure> {
    let mut terminal = Terminal::new(CrosstermBackend::new(out))?;
    let began = Instant::now();
    let mut next = began;
    while !ended.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now >= next {
            next = now + interval;
            if !app.paused {
                let found = crate::processes::all()?;
                app.model.observe(began.elapsed(), found.map(Source::of));
            }
            terminal.draw(|frame| draw::draw(frame, app))?;
        }
        let wait = next.saturating_duration_since(Instant::now());
        if event::poll(wait.min(TIMEOUT))? {
            if let Event::Key(key) = event::read()?
                && app.key(key) == Flow::End
            {
                break;
            }
            terminal.draw(|frame| draw::draw(frame, app))?;
        }
    }
    Ok(())
}

/// Becomes true when a signal would end the command, which has the terminal to restore.
fn signals() -> io::Result<Arc<AtomicBool>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = Arc::new(AtomicBool::new(false));
    let mut signals = {
        let _guard = runtime.enter();
        Signals::of(&[
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ])?
    };
    let flag = ended.clone();
    thread::Builder::new().spawn(move || {
        runtime.block_on(signals.next());
        flag.store(true, Ordering::Relaxed);
    })?;
    Ok(ended)
}
