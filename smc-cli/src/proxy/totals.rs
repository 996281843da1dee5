//! What a proxy carried.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use smc_sockets::{Carrier, Technology};

use super::{Outcome, Passed};
use crate::output::grouped;

/// Connections of one side by what carried them.
#[derive(Default)]
struct Side {
    shared_memory: u64,
    rdma: u64,
    tcp: u64,
}

impl Side {
    fn add(&mut self, carrier: &Carrier) {
        let count = match carrier {
            Carrier::Smc(terms) if terms.technology == Technology::SmcD => &mut self.shared_memory,
            Carrier::Smc(_) => &mut self.rdma,
            _ => &mut self.tcp,
        };
        *count += 1;
    }

    fn json(&self) -> Value {
        json!({ "smc_d": self.shared_memory, "smc_r": self.rdma, "tcp": self.tcp })
    }
}

/// What a proxy carried.
#[derive(Default)]
pub(super) struct Totals {
    connections: u64,
    unreached: u64,
    not_accepted: u64,
    broken: u64,
    from: Side,
    to: Side,
    there: u64,
    back: u64,
}

impl Totals {
    pub(super) fn add(&mut self, passed: &Passed) {
        let carried = match &passed.outcome {
            Outcome::NotAccepted(_) => {
                self.not_accepted += 1;
                return;
            }
            Outcome::Unreached(_) => {
                self.connections += 1;
                self.unreached += 1;
                return;
            }
            Outcome::Carried(carried) => carried,
        };
        self.connections += 1;
        self.broken += u64::from(carried.error.is_some());
        self.from.add(&carried.from);
        self.to.add(&carried.to);
        self.there = self.there.saturating_add(carried.there);
        self.back = self.back.saturating_add(carried.back);
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "connections": self.connections,
            "target_not_reached": self.unreached,
            "not_accepted": self.not_accepted,
            "broken": self.broken,
            "from": self.from.json(),
            "to": self.to.json(),
            "octets_to_target": self.there,
            "octets_to_clients": self.back,
        })
    }

    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{} connections, {} of them broken; the target was not reached {} times",
            grouped(self.connections),
            grouped(self.broken),
            grouped(self.unreached),
        )?;
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header(["side", "SMC-D", "SMC-R", "TCP", "bytes from there"]);
        let rows = [
            ("clients", &self.from, self.there),
            ("target", &self.to, self.back),
        ];
        for (name, side, octets) in rows {
            let figures = [side.shared_memory, side.rdma, side.tcp, octets];
            let cells = figures.map(grouped);
            table.add_row([name.to_owned()].into_iter().chain(cells));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{table}")
    }
}
