//! The ladder of a demo: two hosts, and the messages between them.

use std::io::{self, Write};

use console::Style;
use smc_proto::time::Instant;
use smc_transport_sim::observe::Outcome;

use super::tally::{Family, Kind, Tally};
use super::watch::{Rung, Said, Watch};
use super::words;
use crate::output::{Screen, grouped, size};

/// Columns without a terminal, and on a wide one.
const WIDTH: usize = 100;
const NARROWEST: usize = 60;
/// Columns left of the client's line: the time.
const MARGIN: usize = 14;

/// Colours of families, if there are colours.
pub(super) fn colour(family: Family) -> Style {
    match family {
        Family::Tcp => Style::new().blue(),
        Family::Clc => Style::new().green(),
        Family::Llc => Style::new().magenta(),
        Family::Cdc => Style::new().yellow(),
        Family::Write => Style::new().cyan(),
    }
}

struct Paper<'a> {
    screen: &'a Screen,
    /// Columns between the lines of the two hosts.
    lane: usize,
    out: &'a mut dyn Write,
}

/// Shows what was kept, and how much was not.
pub(super) fn show(watch: &Watch, screen: &Screen, out: &mut dyn Write) -> io::Result<()> {
    let width = screen.width.unwrap_or(WIDTH).clamp(NARROWEST, WIDTH);
    let mut paper = Paper {
        screen,
        lane: width - MARGIN - 2,
        out,
    };
    paper.head()?;
    let mut sums = Tally::NONE;
    let mut since = Instant::ZERO;
    for rung in watch.rungs() {
        let said = text(watch, rung);
        paper.gap(&rung.before.since(&sums), rung.at.since(since))?;
        paper.rung(rung, &said)?;
        (sums, since) = (rung.after, rung.at);
    }
    writeln!(paper.out)
}

impl Rung {
    const fn family(&self) -> Family {
        match self.said {
            Said::Words(family, _) => family,
            Said::Cdc(_) => Family::Cdc,
            Said::Write { .. } => Family::Write,
        }
    }
}

fn text(watch: &Watch, rung: &Rung) -> String {
    let mut text = match &rung.said {
        Said::Words(_, text) => text.clone(),
        Said::Cdc(cdc) => words::cdc(cdc),
        Said::Write {
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
            format!("RDMA WRITE {length} octet{plural} to {place}, RKey {rkey}")
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
        let time = self.paint(Style::new().dim(), "virtual ms");
        writeln!(self.out, "{time}    {names}")?;
        let lane = self.lane;
        writeln!(self.out, "{:MARGIN$}│{:lane$}│", "", "")
    }

    fn rung(&mut self, rung: &Rung, text: &str) -> io::Result<()> {
        let text = shortened(text, self.lane.saturating_sub(8));
        let rest = self.lane - text.chars().count() - 5;
        let line = "─".repeat(rest);
        let said = self.paint(colour(rung.family()), &text);
        let time = milliseconds(rung.at);
        let time = self.paint(Style::new().dim(), &format!("{time:>11}"));
        if rung.to_server {
            writeln!(self.out, "{time}   ├── {said} {line}▶│")
        } else {
            writeln!(self.out, "{time}   │◀─ {said} {line}─┤")
        }
    }

    /// Tells of the messages between two that are shown.
    fn gap(&mut self, left_out: &Tally, time: core::time::Duration) -> io::Result<()> {
        let all = left_out.all();
        if all == 0 {
            return Ok(());
        }
        let writes = left_out.total(Kind::Write);
        let octets = size(left_out.write_octets().iter().sum());
        let mut text = format!("… {} messages …", grouped(all));
        if writes > 0 {
            let (writes, cdcs) = (grouped(writes), grouped(left_out.total(Kind::Cdc)));
            let time = time.as_secs_f64() * 1e3;
            text = format!(
                "… {} messages in {time:.3} ms: {writes} WRITEs with {octets}, {cdcs} CDC …",
                grouped(all)
            );
        }
        let text = shortened(&text, self.lane);
        let lane = self.lane;
        let dotted = format!("{:MARGIN$}┊{:lane$}┊", "", "");
        let line = format!("{:MARGIN$}┊{text:^lane$}┊", "");
        let style = Style::new().dim();
        writeln!(self.out, "{}", self.paint(style.clone(), &dotted))?;
        writeln!(self.out, "{}", self.paint(style.clone(), &line))?;
        writeln!(self.out, "{}", self.paint(style, &dotted))
    }
}

fn milliseconds(at: Instant) -> String {
    let micros = at.as_nanos() / 1_000;
    format!("{}.{:03}", grouped(micros / 1_000), micros % 1_000)
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}
