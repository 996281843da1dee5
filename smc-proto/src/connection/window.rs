//! When the reader advertises space to the writer (RFC 7609 4.5.1).

/// Whether a CDC message only for the consumer cursor is worth its cost.
///
/// * `ring`: bytes of the receive buffer,
/// * `sender_view`: free bytes as the writer counts them, from the cursor last sent,
/// * `gain`: bytes consumed since then,
/// * `forced`: the writer is blocked or waits to place urgent data.
///
/// The products are exact: a ring has at most 2^30 bytes.
pub(super) fn update_due(ring: u32, sender_view: u32, gain: u32, forced: bool) -> bool {
    let ring = u64::from(ring);
    //= FLOW-004
    //= FLOW-005
    //= FLOW-006
    //= FLOW-007
    //= FLOW-020
    let worth_it =
        u64::from(sender_view).wrapping_mul(2) < ring && u64::from(gain).wrapping_mul(10) >= ring;
    //= FLOW-011
    //= FLOW-012
    gain > 0 && (forced || worth_it)
}
