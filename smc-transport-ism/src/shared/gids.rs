//! Names of a device: one for each user that its peers belong to.
//!
//! A peer learns the GID of this side and could claim it elsewhere: a process that claims a GID
//! first would keep its owner out. So peers of one user learn a GID that peers of other
//! users cannot compute, and what a process claims, no process of another user expects.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use crate::device::Gid128;

/// The GIDs under which a device is known.
#[derive(Clone, Debug)]
pub struct Gids(Kind);

#[derive(Clone, Debug)]
enum Kind {
    One(Gid128),
    PerUser(RandomState, [u64; 2]),
}

impl Gids {
    /// A secret from which a GID for each user is made, by SipHash. The keys of the hash
    /// alone are not enough: a child of this process inherits the next ones.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn secret() -> io::Result<Self> {
        let secret = [super::random()?, super::random()?];
        Ok(Self(Kind::PerUser(RandomState::new(), secret)))
    }

    /// The GID that peers of this user learn.
    //= SHM-055
    #[must_use]
    pub fn toward(&self, uid: u32) -> Gid128 {
        match &self.0 {
            Kind::One(gid) => *gid,
            Kind::PerUser(hash, secret) => {
                let [gid, ext] = [0, 1].map(|half| half_of(hash, *secret, uid, half));
                Gid128 { gid, ext }
            }
        }
    }
}

/// Half of the GID for a user. The hash gets all at once, which takes a third of the time of field
/// by field.
fn half_of(hash: &RandomState, [first, second]: [u64; 2], uid: u32, half: u64) -> u64 {
    let words = [first, second, u64::from(uid) << 1 | half];
    let mut hasher = hash.build_hasher();
    hasher.write(words.map(u64::to_ne_bytes).as_flattened());
    hasher.finish()
}

/// One GID for all peers.
impl From<Gid128> for Gids {
    fn from(gid: Gid128) -> Self {
        Self(Kind::One(gid))
    }
}

#[cfg(test)]
mod tests {
    use super::Gids;
    use crate::device::Gid128;

    //= SHM-055 test
    #[test]
    fn each_user_learns_another_gid_and_always_the_same() {
        let (one, two) = (Gids::secret().unwrap(), Gids::secret().unwrap());
        let mut all: Vec<Gid128> = (0..1_000).map(|uid| one.toward(uid)).collect();
        all.extend((0..1_000).map(|uid| two.toward(uid)));
        let mut halves: Vec<u64> = all.iter().flat_map(|at| [at.gid, at.ext]).collect();
        halves.sort_unstable();
        halves.dedup();
        assert_eq!(halves.len(), 4_000, "no half is like any other");
        assert_eq!(one.clone().toward(7), one.toward(7));
        let gid = Gid128 { gid: 1, ext: 2 };
        assert_eq!(Gids::from(gid).toward(7), gid);
    }
}
