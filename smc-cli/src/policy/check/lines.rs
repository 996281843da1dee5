//! What each line of a policy does.

use smc_sockets::Policy;
use toml::de::{DeTable, DeValue};

use crate::output::size;

/// A line with a key, or with an entry of its list.
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) key: String,
    pub(super) meaning: String,
}

/// The lines of a text that is a policy, in their order.
pub(super) fn of(text: &str, policy: &Policy) -> Vec<Line> {
    let Ok(document) = DeTable::parse(text) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let mut walk = Walk {
        text,
        lines: &mut lines,
    };
    for (key, value) in document.get_ref().iter() {
        walk.key(key.get_ref(), key.span().start, value.get_ref(), policy);
    }
    lines.sort_by_key(|line| line.number);
    lines
}

struct Walk<'a> {
    text: &'a str,
    lines: &'a mut Vec<Line>,
}

/// Kinds of entries, and what each of them does; what an empty list does.
fn list(key: &str) -> Option<(&'static str, &'static str)> {
    Some(match key {
        "listen-ports" => ("listeners at it may accept SMC", "no listener accepts SMC"),
        "connect-ports" => (
            "connections to it may be SMC",
            "no connection to a server is SMC",
        ),
        "permit" => (
            "peers of it may be spoken SMC with",
            "no peer is spoken SMC with: every connection is TCP",
        ),
        "exclude" => (
            "peers of it are spoken TCP with, whatever permit says",
            "no peer is excluded",
        ),
        "ueids" => (
            "a user EID: SMC version 2 is possible with peers that have it, too",
            "no user EID",
        ),
        _ => return None,
    })
}

impl Walk<'_> {
    fn put(&mut self, at: usize, key: &str, meaning: String) {
        let before = self.text.get(..at).unwrap_or(self.text);
        self.lines.push(Line {
            number: before.matches('\n').count() + 1,
            key: key.to_owned(),
            meaning,
        });
    }

    fn key(&mut self, key: &str, at: usize, value: &DeValue<'_>, policy: &Policy) {
        if let (Some((entry, empty)), DeValue::Array(all)) = (list(key), value) {
            for of in all.iter() {
                let shown = shown(of.get_ref());
                self.put(of.span().start, key, format!("{shown}: {entry}"));
            }
            if all.is_empty() {
                self.put(at, key, empty.to_owned());
            }
            return;
        }
        match (key, value) {
            ("transports", DeValue::Array(all)) => self.transports(key, at, all.is_empty(), policy),
            ("assume-smc" | "pnet", DeValue::Array(all)) => {
                for of in all.iter() {
                    let meaning = match key {
                        "pnet" => attached(of.get_ref()),
                        _ => assumed(of.get_ref()),
                    };
                    self.put(of.span().start, key, meaning);
                }
                if all.is_empty() {
                    self.put(at, key, "none".to_owned());
                }
            }
            ("shun", DeValue::Table(all)) => {
                for (inner, of) in all.iter() {
                    let meaning = denylisted(inner.get_ref(), &shown(of.get_ref()));
                    let key = format!("shun.{}", inner.get_ref());
                    self.put(inner.span().start, &key, meaning);
                }
            }
            _ => {
                let meaning = scalar(key, policy);
                self.put(at, key, meaning.unwrap_or_else(|| shown(value)));
            }
        }
    }

    fn transports(&mut self, key: &str, at: usize, is_empty: bool, policy: &Policy) {
        let names: Vec<&str> = policy
            .transports
            .iter()
            .map(|of| match of {
                smc_sockets::policy::Transport::Ism => "shared memory within the host",
                smc_sockets::policy::Transport::Verbs => "RDMA between hosts",
                _ => "another transport",
            })
            .collect();
        let meaning = match is_empty {
            true => "nothing may carry SMC: every connection is TCP".to_owned(),
            false => format!("SMC may be carried by {}", names.join(", then ")),
        };
        self.put(at, key, meaning);
    }
}

fn scalar(key: &str, policy: &Policy) -> Option<String> {
    use smc_sockets::policy::UseOption;
    Some(match key {
        "enabled" if policy.enabled => "SMC is possible".to_owned(),
        "enabled" => "every connection is TCP".to_owned(),
        "max-memory" => format!(
            "buffers of connections take {} at most; further connections are TCP",
            size(policy.max_memory?)
        ),
        "system-eid" => format!("the system EID is {}", policy.system_eid.as_ref()?),
        "tcp-option" => match policy.tcp_option {
            UseOption::Auto => {
                "SMC's TCP option is used if there is an RNIC to offer, and the rights".to_owned()
            }
            UseOption::Always => {
                "SMC's TCP option is used whenever there are the rights".to_owned()
            }
            UseOption::Never => "SMC's TCP option is never used: of other hosts, only those of \
                                 assume-smc are asked for SMC"
                .to_owned(),
        },
        _ => return None,
    })
}

fn assumed(of: &DeValue<'_>) -> String {
    let part = |name: &str| {
        let value = of.as_table().and_then(|table| table.get(name));
        value.map_or_else(|| "none".to_owned(), |value| shown(value.get_ref()))
    };
    format!(
        "peers {} are known to speak SMC at the servers' ports {}, without the TCP option; \
         they need the same entry",
        part("peers"),
        part("ports")
    )
}

fn attached(of: &DeValue<'_>) -> String {
    let part = |name: &str| {
        let value = of.as_table().and_then(|table| table.get(name));
        value.map(|value| shown(value.get_ref()))
    };
    let what = match (part("interface"), part("device"), part("port")) {
        (Some(interface), ..) => format!("the interface {interface}"),
        (_, Some(device), Some(port)) => format!("port {port} of the device {device}"),
        (_, Some(device), _) => format!("the device {device}"),
        _ => "nothing".to_owned(),
    };
    let id = part("id").unwrap_or_default();
    format!("{what} is attached to the physical network {id}")
}

fn denylisted(key: &str, value: &str) -> String {
    match key {
        "servers" => {
            format!("{value} servers that misunderstood SMC's Proposal are remembered at most")
        }
        _ => format!("such a server is not asked for SMC for {value} seconds"),
    }
}

/// A value as it is written, without quotation marks.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(true) => "true".to_owned(),
        DeValue::Boolean(false) => "false".to_owned(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(all) => {
            let all: Vec<String> = all.iter().map(|of| shown(of.get_ref())).collect();
            all.join(", ")
        }
        DeValue::Table(_) => "a table".to_owned(),
    }
}
