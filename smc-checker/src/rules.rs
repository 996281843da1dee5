//! The rules, a file for each chapter, or two.
//!
//! A chapter's rules are in tables, by what they judge:
//!
//! | table | judges |
//! |---|---|
//! | `RULES` | one CLC, LLC or CDC message, or TCP segment, in its context |
//! | `WRITES` | one RDMA WRITE |
//! | `ON_LINKS` | any packet on a link |
//! | `OTHERS` | not by a function: found where bytes are decoded |
//!
//! The checker runs the tables; [`all`] lists them for documentation and for the ledger of
//! requirements.

pub(crate) mod cdc;
pub(crate) mod clc;
pub(crate) mod close;
pub(crate) mod contact;
pub(crate) mod failover;
pub(crate) mod links;
pub(crate) mod llc;
pub(crate) mod rkeys;
pub(crate) mod tcp;
pub(crate) mod urgent;
pub(crate) mod version;
pub(crate) mod window;

use crate::rule::Rule;

/// Every rule, in the order of the chapters.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    let clc = [clc::RULES, version::RULES, contact::RULES];
    let llc = [llc::RULES, links::RULES, rkeys::RULES];
    let cdc = [
        cdc::RULES,
        window::RULES,
        urgent::RULES,
        close::RULES,
        failover::RULES,
    ];
    let writes = [
        rkeys::WRITES,
        window::WRITES,
        urgent::WRITES,
        close::WRITES,
        failover::WRITES,
    ];
    let mut rules: Vec<&'static Rule> = Vec::new();
    rules.extend(clc.into_iter().flatten().map(|row| &row.rule));
    rules.extend(clc::OTHERS);
    rules.extend(tcp::RULES.iter().map(|row| &row.rule));
    rules.extend(llc.into_iter().flatten().map(|row| &row.rule));
    rules.extend(llc::OTHERS);
    rules.extend(links::ON_LINKS.iter().map(|row| &row.rule));
    rules.extend(cdc.into_iter().flatten().map(|row| &row.rule));
    rules.extend(writes.into_iter().flatten().map(|row| &row.rule));
    // Stable: within a chapter the order above stays.
    rules.sort_by_key(|rule| rule.chapter);
    rules.into_iter()
}
