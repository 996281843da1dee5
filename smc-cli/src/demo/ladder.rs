//! The ladder of a demo: two hosts, and the messages between them.

use std::io::{self, Write};

use console::Style;
use smc_proto::time::Instant;
use smc_transport_sim::observe::Outcome;

use super::rung::{Effect, Message, Rung};
use super::tally::{Family, Kind, Tally};
use super::text;
use super::watch::Watch;
use crate::output::{Screen, grouped, size};

/// Columns without a terminal, and on a wide one.
const WIDTH: usize = 100;
const NARROWEST: usize = 60;
/// Columns left of the client's line: the time, and the number of the link if
/// there are several.
const MARGIN: usize = 14;
const WIDER_MARGIN: usize = 16;

/// From so many messages on that are left out, room is left for them.
const MANY: u64 = 100;

/// Colours of families, if there are colours.
pub(super) fn colour(family: Family) -> Style {
    match family {
        Family::Tcp => Style::new().blue(),
        Family::Clc => Style::new().green(),
        Family::Llc | Family::Event => Style::new().magenta(),
        Family::Cdc => Style::new().yellow(),
        Family::Write => Style::new().cyan(),
    }
}

const fn mood_colour(effect: Effect) -> Style {
    match effect {
        Effect::Bad => Style::new().red().bold(),
        Effect::Good => Style::new().green().bold(),
        Effect::Neutral => Style::new().bold(),
    }
}

struct Paper<'a> {
    screen: &'a Screen,
    margin: usize,
    /// Columns between the lines of the two hosts.
    lane: usize,
    out: &'a mut dyn Write,
}

/// Shows what was kept, and how much was not.
pub(super) fn show(watch: &Watch, screen: &Screen, out: &mut dyn Write) -> io::Result<()> {
    let width = screen.width.unwrap_or(WIDTH).clamp(NARROWEST, WIDTH);
    let margin = if watch.several_links {
        WIDER_MARGIN
    } else {
        MARGIN
    };
    let mut paper = Paper {
        screen,
        margin,
        lane: width - margin - 2,
        out,
    };
    paper.head()?;
    let mut sums = Tally::NONE;
    let mut since = Instant::ZERO;
    for rung in watch.rungs() {
        let message = text(watch, rung);
        paper.gap(&rung.before.since(&sums), rung.at.since(since))?;
        paper.rung(rung, &message)?;
        (sums, since) = (rung.after, rung.at);
    }
    writeln!(paper.out)
}

fn text(watch: &Watch, rung: &Rung) -> String {
    let mut text = match &rung.message {
        Message::Text(_, text) | Message::Note(_, text) => text.clone(),
        Message::Cdc(cdc) => text::cdc(cdc),
        Message::CdcIsm(cdc) => text::cdc_ism(cdc),
        Message::Move { length, offset } => {
            let plural = if *length == 1 { "" } else { "s" };
            let length = grouped(*length as u64);
            let place = grouped(u64::from(*offset));
            format!("ISM MOVE {length} byte{plural} to DMB + {place}")
        }
        Message::Write {
            length,
            rkey,
            address,
        } => {
            let place = watch.place_in_ring(*rkey, *address).map_or_else(
                || format!("0x{address:x}"),
                |place| format!("ring + {}", grouped(place)),
            );
            let plural = if *length == 1 { "" } else { "s" };
            let length = grouped(*length as u64);
            format!("RDMA WRITE {length} byte{plural} to {place}, RKey {rkey}")
        }
    };
    text.push_str(match rung.outcome {
        Outcome::Accepted => "",
        Outcome::Duplicate => " [repeated]",
        Outcome::Dropped => " [lost]",
        Outcome::ReceiverNotReady => " [receiver not ready]",
        Outcome::Refused => " [refused]",
    });
    text
}

impl Paper<'_> {
    fn paint(&self, style: Style, text: &str) -> String {
        let style = style.force_styling(self.screen.colours);
        style.apply_to(text).to_string()
    }

    fn head(&mut self) -> io::Result<()> {
        let (client, server) = ("client 10.0.0.1", "server 10.0.0.2");
        // Over the lines of the hosts and what is between them.
        let gap = (self.lane + 2).saturating_sub(client.len() + server.len());
        let names = format!("{client}{:gap$}{server}", "");
        let names = self.paint(Style::new().bold(), &names);
        let (lane, margin) = (self.lane, self.margin);
        let time = if margin == WIDER_MARGIN {
            "virtual ms link"
        } else {
            "virtual ms"
        };
        let time = self.paint(Style::new().dim(), &format!("{time:margin$}"));
        writeln!(self.out, "{time}{names}")?;
        writeln!(self.out, "{:margin$}│{:lane$}│", "", "")
    }

    fn rung(&mut self, rung: &Rung, text: &str) -> io::Result<()> {
        let text = shortened(text, self.lane.saturating_sub(8));
        let rest = self.lane - text.chars().count() - 5;
        let link = rung.link.map_or_else(String::new, |link| link.to_string());
        let (time, width) = (milliseconds(rung.at), self.margin - 12);
        let time = format!("{time:>11}{link:>width$} ");
        let time = self.paint(Style::new().dim(), &time);
        if let Message::Note(effect, _) = rung.message {
            let message = self.paint(mood_colour(effect), &text);
            let line = "┄".repeat(rest + 1);
            return writeln!(self.out, "{time}├┄┄ {message} {line}┤");
        }
        let colour = rung.family().map_or_else(Style::new, colour);
        let message = self.paint(colour, &text);
        let line = "─".repeat(rest);
        if rung.to_server {
            writeln!(self.out, "{time}├── {message} {line}▶│")
        } else {
            writeln!(self.out, "{time}│◀─ {message} {line}─┤")
        }
    }

    /// Summarises the messages between two that are shown.
    fn gap(&mut self, left_out: &Tally, time: core::time::Duration) -> io::Result<()> {
        let all = left_out.all();
        if all == 0 {
            return Ok(());
        }
        let writes = left_out.family(Family::Write);
        let bytes = size(left_out.write_bytes().iter().sum());
        let mut text = format!("… {} …", count(all, "message"));
        if writes > 0 {
            let (writes, cdcs) = (count(writes, "WRITE"), left_out.total(Kind::Cdc));
            let (time, cdcs) = (time.as_secs_f64() * 1e3, grouped(cdcs));
            text = format!(
                "… {} in {time:.3} ms: {writes} with {bytes}, {cdcs} CDC …",
                count(all, "message")
            );
        }
        let text = shortened(&text, self.lane);
        let (lane, margin) = (self.lane, self.margin);
        let dotted = format!("{:margin$}┊{:lane$}┊", "", "");
        let line = format!("{:margin$}┊{text:^lane$}┊", "");
        let style = Style::new().dim();
        if all < MANY {
            return writeln!(self.out, "{}", self.paint(style, &line));
        }
        writeln!(self.out, "{}", self.paint(style.clone(), &dotted))?;
        writeln!(self.out, "{}", self.paint(style.clone(), &line))?;
        writeln!(self.out, "{}", self.paint(style, &dotted))
    }
}

fn milliseconds(at: Instant) -> String {
    let micros = at.as_nanos() / 1_000;
    format!("{}.{:03}", grouped(micros / 1_000), micros % 1_000)
}

fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}
