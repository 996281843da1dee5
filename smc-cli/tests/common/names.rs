//! Which fields of tshark and of our records mean the same.

pub(crate) const OPTION: &str = "tcp.options.experimental.exid";
pub(crate) const CLC: &str = "smc.clc_msg";
pub(crate) const LLC: &str = "smc.llc_msg";
pub(crate) const RETH: &str = "infiniband.reth.r_key";

/// Fields of tshark and of our records that mean the same, by type.
pub(crate) const SAME: [(&str, &[(&str, &str)]); 15] = [
    ("TcpOption", &[]),
    (
        "Proposal",
        &[
            ("smc.proposal.client.preferred.gid", "gid"),
            ("smc.proposal.client.preferred.mac", "mac"),
            ("smc.outgoing.interface.subnet.mask", "ipv4_network"),
            (
                "smc.outgoing.interface.subnet.mask.number.of.significant.bits",
                "ipv4_prefix_length",
            ),
        ],
    ),
    (
        "Accept",
        &[
            ("smc.proposal.first.contact", "first_contact"),
            ("smc.accept.server.preferred.gid", "gid"),
            ("smc.accept.server.preferred.mac", "mac"),
            ("smc.accept.server.qp.number", "qpn"),
            ("smc.accept.server.rmb.rkey", "rkey"),
            ("smc.accept.server.rmb.virtual.address", "address"),
            ("smc.accept.server.tcp.conn.index", "rmbe_index"),
            ("smc.accept.server.rmb.element.alert.token", "alert_token"),
            ("smc.accept.initial.psn", "psn"),
        ],
    ),
    (
        "Confirm",
        &[
            ("smc.client.gid", "gid"),
            ("smc.confirm.client.mac", "mac"),
            ("smc.confirm.client.qp.number", "qpn"),
            ("smc.confirm.client.rmb.rkey", "rkey"),
            ("smc.client.rmb.virtual.address", "address"),
            ("smc.confirm.first.contact", "first_contact"),
            ("smc.confirm.client.tcp.conn.index", "rmbe_index"),
            ("smc.client.rmb.element.alert.token", "alert_token"),
            ("smc.initial.psn", "psn"),
        ],
    ),
    (
        "ConfirmLink",
        &[
            ("smc.confirm.link.response", "reply"),
            ("smc.sender.gid", "gid"),
            ("smc.confirm.link.sender.mac", "mac"),
            ("smc.confirm.link.sender.qp.number", "qpn"),
            ("smc.confirm.link.number", "link"),
            ("smc.confirm.link.sender.link.userid", "user_id"),
            ("smc.confirm.link.max.links", "max_links"),
        ],
    ),
    (
        "AddLink",
        &[
            ("smc.add.link.response", "reply"),
            ("smc.add.link.response.rejected", "rejected"),
            ("smc.add.link.sender.gid", "gid"),
            ("smc.add.link.sender.mac", "mac"),
            ("smc.add.link.sender.qp.number", "qpn"),
            ("smc.add.link.link.number", "link"),
            ("smc.add.link.initial.psn", "psn"),
        ],
    ),
    (
        "AddLinkContinuation",
        &[
            ("smc.add.link.cont.response", "reply"),
            ("smc.add.link.cont.link.number", "link"),
            ("smc.add.link.cont.rkey.number", "remaining"),
        ],
    ),
    (
        "DeleteLink",
        &[
            ("smc.delete.link.response", "reply"),
            ("smc.delete.link.all", "all"),
            ("smc.delete.link.orderly", "orderly"),
            ("smc.delete.link.number", "link"),
            ("smc.delete.link.reason.code", "reason"),
        ],
    ),
    (
        "ConfirmRkey",
        &[
            ("smc.confirm.rkey.response", "reply"),
            ("smc.confirm.rkey.negative.response", "negative"),
            ("smc.confirm.rkey.retry.rkey.set", "retry"),
            ("smc.confirm.rkey.number.qp", "other_links"),
            ("smc.confirm.rkey.new.rkey", "rkey"),
            ("smc.confirm.rkey.new.virt", "address"),
        ],
    ),
    (
        "DeleteRkey",
        &[
            ("smc.delete.rkey.response", "reply"),
            ("smc.delete.rkey.negative.response", "negative"),
            ("smc.delete.rkey.error.mask", "error_mask"),
        ],
    ),
    ("ConfirmRkeyContinuation", &[]),
    (
        "Decline",
        &[
            ("smc.decline.osync", "out_of_sync"),
            ("smc.peer.diag.info", "diagnosis"),
        ],
    ),
    ("TestLink", &[("smc.test.link.response", "reply")]),
    (
        "Cdc",
        &[
            ("smc.rmbe.ctrl.seqno", "sequence"),
            ("smc.rmbe.ctrl.alert.token", "alert_token"),
            ("smc.rmbe.ctrl.write.blocked", "writer_blocked"),
            ("smc.rmbe.ctrl.urgent.pending", "urgent_pending"),
            ("smc.rmbe.ctrl.urgent.present", "urgent_present"),
            (
                "smc.rmbe.ctrl.cons.update.requested",
                "cursor_update_requested",
            ),
            ("smc.rmbe.ctrl.failover.validation", "failover_validation"),
            ("smc.rmbe.ctrl.peer.sending.done", "sending_done"),
            ("smc.rmbe.ctrl.peer.closed.conn", "peer_connection_closed"),
            ("smc.rmbe.ctrl.peer.abnormal.close", "abnormal_close"),
        ],
    ),
    (
        "Write",
        &[
            ("infiniband.reth.r_key", "rkey"),
            ("infiniband.reth.va", "address"),
            ("infiniband.reth.dmalen", "length"),
        ],
    ),
];

/// Fields of tshark for what version 2 and SMC-D add to a message.
pub(crate) const SAME_V2: [(&str, &[(&str, &str)]); 5] = [
    (
        "Proposal",
        &[("smc.proposal.smc.version.relnum", "v2_release")],
    ),
    (
        "SmcdAccept",
        &[
            ("smc.accept.first.contact", "first_contact"),
            ("smc.accept.server.linkid", "link_id"),
            ("smc.accept.sender.server.ism.gid", "ism_gid"),
            ("smc.accept.dmb.token", "dmb_token"),
            ("smc.accept.dmbe.conn.index", "dmbe_index"),
            ("smc.accept.smc.chid", "ism_chid"),
        ],
    ),
    (
        "SmcdConfirm",
        &[
            ("smc.confirm.first.contact", "first_contact"),
            ("smc.confirm.client.linkid", "link_id"),
            ("smc.confirm.sender.client.ism.gid", "ism_gid"),
            ("smc.confirm.dmb.token", "dmb_token"),
            ("smc.confirm.dmbe.conn.index", "dmbe_index"),
            ("smc.confirm.smc.chid", "ism_chid"),
        ],
    ),
    (
        "AcceptExtension",
        &[
            ("smc.accept.os.type", "os"),
            ("smc.accept.smc.version.relnum", "release"),
        ],
    ),
    (
        "ConfirmExtension",
        &[
            ("smc.confirm.os.type", "os"),
            ("smc.confirm.smc.version.relnum", "release"),
        ],
    ),
];

/// Fields that are compared apart from [`SAME_V2`].
pub(crate) const OTHER_V2: [&str; 17] = [
    "smc.proposal.eid",
    "smc.proposal.rocev2.gid.ipv4",
    "smc.proposal.ism.gid",
    "smc.proposal.smc.chid",
    "smc.accept.eid",
    "smc.confirm.eid",
    "smc.accept.peer.host.name",
    "smc.confirm.peer.host.name",
    "smc.accept.v2_lg.type",
    "smc.confirm.gid.list.entry",
    "smc.accept.dmbe.buffer.size",
    "smc.confirm.dmbe.buffer.size",
    "smc.add.link.direct_link",
    "smc.add.link.rmb.RTok.Rkey1",
    "smc.add.link.rmb.RTok.Rkey2",
    "smc.decline.os.type",
    "smc.delete.rkey.count.invalid",
];

/// Fields that are compared apart from [`SAME`].
pub(crate) const OTHER: [&str; 17] = [
    OPTION,
    CLC,
    LLC,
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "smc.proposal.sender.client.peer.id",
    "smc.accept.sender.server.peer.id",
    "smc.confirm.sender.client.peer.id",
    "smc.accept.rmb.buffer.size",
    "smc.accept.qp.mtu.value",
    "smc.confirm.rmb.buffer.size",
    "smc.confirm.qp.mtu.value",
    "smc.rmbe.ctrl.prod.wrap.seq",
    "smc.rmbe.ctrl.peer.prod.curs",
    "smc.confirm.rkey.link.number",
    "smc.delete.rkey.deleted",
    "smc.sender.peer.id",
];
