//! Changes that the rules about versions and what is agreed on are to find.

use smc_proto::wire::clc::OfferedPath;
use smc_proto::wire::types::{Chid, Eid, Release};

use crate::{Case, SMCD, V2, change, kernels, with};

pub(crate) static CASES: &[Case] = &[
    (&["version-offered"], || {
        with(|s| {
            change!(s, "proposal 1", Proposal(m) => m.v1 = OfferedPath::Neither);
        })
    }),
    (&["version-confirmed"], || {
        kernels(
            V2,
            |s| change!(s, "confirm", Confirm(m) => { m.v2 = None; }),
        )
    }),
    (&["version-eid", "version-eid-repeated"], || {
        let other = Eid::user("ANOTHER.EID").unwrap();
        kernels(
            V2,
            |s| change!(s, "accept", Accept(m) => m.v2.as_mut().unwrap().eid = other),
        )
    }),
    (&["version-eid-repeated"], || {
        let other = Eid::user("ANOTHER.EID").unwrap();
        kernels(SMCD, |s| {
            change!(s, "confirm", SmcdConfirm(m) => m.v2.as_mut().unwrap().eid = other);
        })
    }),
    (&["version-release"], || {
        kernels(V2, |s| {
            change!(s, "confirm", Confirm(m) => {
                m.v2.as_mut().unwrap().extension.release = Release::new(2);
            });
        })
    }),
    (&["version-limits"], || {
        kernels(V2, |s| {
            change!(s, "confirm", Confirm(m) => {
                m.v2.as_mut().unwrap().extension.max_links += 1;
            });
        })
    }),
    (&["version-chid"], || {
        kernels(SMCD, |s| {
            change!(s, "accept", SmcdAccept(m) => m.v2.as_mut().unwrap().chid = Chid(0x77));
        })
    }),
];
