//! Whether the tables of an endpoint agree with each other.

use std::collections::BTreeSet;

use super::Script;

impl Script {
    /// Links name groups that live, connections are counted where they are, and
    /// nothing that is gone is named: after any step.
    ///
    /// # Panics
    /// With the conversation, if it is otherwise.
    #[track_caller]
    pub fn expect_agreement(&mut self) {
        let links: Vec<_> = self.adapter.links().collect();
        let usage = self.endpoint.usage();
        let mut groups = BTreeSet::new();
        let (mut live, mut carried) = (0, 0);
        for link in links {
            let Some(status) = self.endpoint.link(link) else {
                self.fail(format_args!("{link} has a queue pair and is not there"));
            };
            if self.endpoint.terms(status.group).is_none() {
                self.fail(format_args!("{link} is of {}, which is gone", status.group));
            }
            groups.insert(format!("{}", status.group));
            live += 1;
            carried += u32::from(status.connections);
        }
        let groups = groups.len() as u32;
        for (what, found, most) in [
            ("links", live, usage.links),
            ("groups of links", groups, usage.groups),
            ("connections on links", carried, usage.connections),
            ("groups", usage.groups, usage.links),
        ] {
            // A group may wait for its buffers when its last link is gone.
            if found > most && !(what == "groups" && usage.buffers > 0) {
                self.fail(format_args!("{found} {what} of {most}: {usage:?}"));
            }
        }
    }
}
