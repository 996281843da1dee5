//! Metrics as OpenMetrics text (version 1.0.0).

use std::fmt::Write as _;

use smc_view::Traffic;

use super::counters::{Counters, reasons};
use super::sums::{Levels, Sums, User};

/// The media type.
pub const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const TECHNOLOGIES: [&str; 2] = ["smcd", "smcr"];
const SIDES: [&str; 2] = ["client", "server"];
/// Directions, with the part of the keys that names them.
const DIRECTIONS: [(&str, &str); 2] = [("tx", "TX"), ("rx", "RX")];
/// Upper ends of the classes of sizes, in bytes, with the keys' names of them.
const CLASSES: [(&str, &str); 9] = [
    ("8192.0", "8K"),
    ("16384.0", "16K"),
    ("32768.0", "32K"),
    ("65536.0", "64K"),
    ("131072.0", "128K"),
    ("262144.0", "256K"),
    ("524288.0", "512K"),
    ("1048576.0", "1024K"),
    ("+Inf", "G_1024K"),
];

/// One sample of a user: suffix of the name, labels, value.
type Sample = (&'static str, Vec<(&'static str, &'static str)>, u64);

/// A metric of which each user has samples.
struct Family {
    name: &'static str,
    kind: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    samples: fn(&Counters, &Levels) -> Vec<Sample>,
}

/// The text of all metrics.
#[must_use]
pub fn of(sums: &Sums) -> String {
    let mut text = String::with_capacity(1 << 14);
    let users = sums.users();
    let version = env!("CARGO_PKG_VERSION");
    text += "# TYPE smc_exporter info\n# HELP smc_exporter The program that exports.\n";
    let _ = writeln!(text, "smc_exporter_info{{version=\"{version}\"}} 1");
    for family in FAMILIES {
        let (name, kind) = (family.name, family.kind);
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if let Some(unit) = family.unit {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {}", family.help);
        for (user, (counters, levels)) in &users {
            for sample in (family.samples)(counters, levels) {
                line(name, *user, &sample, &mut text);
            }
        }
    }
    text += "# EOF\n";
    text
}

/// Names and kinds of all metrics of which users have samples.
pub fn families() -> impl Iterator<Item = (&'static str, &'static str)> {
    FAMILIES.iter().map(|family| (family.name, family.kind))
}

fn line(name: &str, user: User, (suffix, labels, value): &Sample, text: &mut String) {
    let _ = match user {
        Some(user) => write!(text, "{name}{suffix}{{uid=\"{user}\""),
        None => write!(text, "{name}{suffix}{{uid=\"other\""),
    };
    // Values are constants of this program, without anything to be escaped.
    for (label, value) in labels {
        let _ = write!(text, ",{label}=\"{value}\"");
    }
    let _ = writeln!(text, "}} {value}");
}

const FAMILIES: &[Family] = &[
    Family {
        name: "smc_connections",
        kind: "counter",
        unit: None,
        help: "Connections that SMC carried.",
        samples: |counters, _| {
            let versions = [
                ("client", "1", "SMC_CLNT_V1_SUCC_CNT"),
                ("client", "2", "SMC_CLNT_V2_SUCC_CNT"),
                ("server", "1", "SMC_SRV_V1_SUCC_CNT"),
                ("server", "2", "SMC_SRV_V2_SUCC_CNT"),
            ];
            by_technology(counters, |tech, traffic| {
                let samples = versions.iter().map(|(role, version, key)| {
                    let labels = vec![("tech", tech), ("role", *role), ("version", *version)];
                    ("_total", labels, traffic.get(key))
                });
                samples.collect()
            })
        },
    },
    Family {
        name: "smc_tcp_connections",
        kind: "counter",
        unit: None,
        help: "Connections of SMC sockets that TCP carried.",
        samples: |counters, _| by_side(counters.tcp),
    },
    Family {
        name: "smc_fallbacks",
        kind: "counter",
        unit: None,
        help: "Connections of SMC sockets that TCP carried, by reason.",
        samples: |counters, _| {
            let mut samples = Vec::new();
            for (side, counts) in SIDES.into_iter().zip(&counters.fallbacks) {
                for (reason, count) in reasons().zip(counts).filter(|(_, count)| **count != 0) {
                    samples.push(("_total", vec![("side", side), ("reason", reason)], *count));
                }
            }
            samples
        },
    },
    Family {
        name: "smc_handshake_errors",
        kind: "counter",
        unit: None,
        help: "Handshakes that failed where no fallback to TCP was left.",
        samples: |counters, _| by_side(counters.handshake_errors),
    },
    Family {
        name: "smc_bytes",
        kind: "counter",
        unit: Some("bytes"),
        help: "Bytes that programs sent and received over SMC.",
        samples: |counters, _| {
            by_direction(counters, "", |traffic, key| {
                traffic.get(&format!("SMC_{key}_BYTES"))
            })
        },
    },
    Family {
        name: "smc_requests",
        kind: "counter",
        unit: None,
        help: "Calls that sent and received over SMC.",
        samples: |counters, _| {
            by_direction(counters, "", |traffic, key| {
                traffic.get(&format!("SMC_{key}_CNT"))
            })
        },
    },
    Family {
        name: "smc_request_size_bytes",
        kind: "histogram",
        unit: Some("bytes"),
        help: "Sizes of calls that sent and received over SMC.",
        samples: |counters, _| by_technology(counters, sizes),
    },
    Family {
        name: "smc_messages",
        kind: "counter",
        unit: None,
        help: "CDC messages that were sent.",
        samples: |counters, _| {
            let samples = TECHNOLOGIES.into_iter().zip(counters.messages);
            let samples = samples.map(|(tech, value)| ("_total", vec![("tech", tech)], value));
            samples.collect()
        },
    },
    Family {
        name: "smc_buffer_full",
        kind: "counter",
        unit: None,
        help: "Times a buffer had no room, here or at the peer.",
        samples: |counters, _| places(counters, "FULL"),
    },
    Family {
        name: "smc_buffer_too_small",
        kind: "counter",
        unit: None,
        help: "Calls about more bytes than a buffer has, here or at the peer.",
        samples: |counters, _| places(counters, "SIZE_SM"),
    },
    Family {
        name: "smc_link_moves",
        kind: "counter",
        unit: None,
        help: "Times a connection moved to another link.",
        samples: |counters, _| vec![("_total", Vec::new(), counters.link_moves)],
    },
    Family {
        name: "smc_processes",
        kind: "gauge",
        unit: None,
        help: "Processes that publish.",
        samples: |_, levels| vec![("", Vec::new(), levels.processes)],
    },
    Family {
        name: "smc_connections_open",
        kind: "gauge",
        unit: None,
        help: "Connections of SMC sockets, by what carries them.",
        samples: |_, levels| {
            let by = ["smcd", "smcr", "tcp", "undecided"];
            let samples = by.into_iter().zip(levels.connections);
            let samples = samples.map(|(tech, value)| ("", vec![("tech", tech)], value));
            samples.collect()
        },
    },
    Family {
        name: "smc_listeners",
        kind: "gauge",
        unit: None,
        help: "Listeners of SMC sockets.",
        samples: |_, levels| vec![("", Vec::new(), levels.listeners)],
    },
    Family {
        name: "smc_link_groups",
        kind: "gauge",
        unit: None,
        help: "Link groups.",
        samples: |_, levels| {
            let samples = TECHNOLOGIES.into_iter().zip(levels.groups);
            let samples = samples.map(|(tech, value)| ("", vec![("tech", tech)], value));
            samples.collect()
        },
    },
    Family {
        name: "smc_links",
        kind: "gauge",
        unit: None,
        help: "Links of SMC-R.",
        samples: |_, levels| {
            let samples = ["active", "inactive"].into_iter().zip(levels.links);
            let samples = samples.map(|(state, value)| ("", vec![("state", state)], value));
            samples.collect()
        },
    },
    Family {
        name: "smc_buffer_bytes",
        kind: "gauge",
        unit: Some("bytes"),
        help: "Memory of the buffers of connections.",
        samples: |_, levels| {
            let mut samples = Vec::new();
            for (tech, buffers) in TECHNOLOGIES.into_iter().zip(levels.buffers) {
                for ((dir, _), value) in DIRECTIONS.into_iter().zip(buffers) {
                    samples.push(("", vec![("tech", tech), ("dir", dir)], value));
                }
            }
            samples
        },
    },
    Family {
        name: "smc_rows_hidden",
        kind: "gauge",
        unit: None,
        help: "Connections, groups and links that found no place among what processes publish.",
        samples: |_, levels| vec![("", Vec::new(), levels.hidden)],
    },
];

fn by_technology(
    counters: &Counters,
    samples: impl Fn(&'static str, &Traffic) -> Vec<Sample>,
) -> Vec<Sample> {
    let all = TECHNOLOGIES.into_iter().zip(&counters.traffic);
    all.flat_map(|(tech, traffic)| samples(tech, traffic))
        .collect()
}

fn by_side(values: [u64; 2]) -> Vec<Sample> {
    let samples = SIDES.into_iter().zip(values);
    let samples = samples.map(|(side, value)| ("_total", vec![("side", side)], value));
    samples.collect()
}

/// A counter of both directions; `value` takes the part of a key that names one.
fn by_direction(
    counters: &Counters,
    at: &'static str,
    value: impl Fn(&Traffic, &str) -> u64,
) -> Vec<Sample> {
    by_technology(counters, |tech, traffic| {
        let samples = DIRECTIONS.into_iter().map(|(dir, key)| {
            let mut labels = vec![("tech", tech), ("dir", dir)];
            labels.extend((!at.is_empty()).then_some(("where", at)));
            ("_total", labels, value(traffic, key))
        });
        samples.collect()
    })
}

/// What is counted of buffers here, and of those of the peer.
fn places(counters: &Counters, what: &str) -> Vec<Sample> {
    let places = [("local", "CNT"), ("remote", "PEER_CNT")];
    let samples = places.into_iter().flat_map(|(at, key)| {
        by_direction(counters, at, |traffic, direction| {
            traffic.get(&format!("SMC_INT_{direction}_BUF_{what}_{key}"))
        })
    });
    samples.collect()
}

fn sizes(tech: &'static str, traffic: &Traffic) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (dir, key) in DIRECTIONS {
        let labels = || vec![("tech", tech), ("dir", dir)];
        let mut sum = 0_u64;
        for (end, class) in CLASSES {
            sum = sum.saturating_add(traffic.get(&format!("SMC_USR_{key}_BUF_{class}")));
            let mut labels = labels();
            labels.push(("le", end));
            samples.push(("_bucket", labels, sum));
        }
        samples.push(("_count", labels(), sum));
        samples.push(("_sum", labels(), traffic.get(&format!("SMC_{key}_BYTES"))));
    }
    samples
}
