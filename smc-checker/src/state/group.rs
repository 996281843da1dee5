//! Link groups.

use std::collections::{BTreeMap, HashMap, VecDeque};

use smc_proto::wire::llc::{ConfirmRkey, LinkRToken};
use smc_proto::wire::types::{AlertToken, LinkNumber, PeerId, RKey, RToken};

use super::connection::{Connection, ConnectionNumber, End};
use super::link::{Link, LinkIndex};
use super::message::{Kind, Message};
use super::rmb::{Rmb, RmbNumber};
use super::side::{Pair, Side};

/// Which group, in the order of their first Accepts.
pub(crate) type GroupNumber = u64;

/// Connections of a group that are remembered; the oldest are forgotten first.
const MAX_CONNECTIONS: usize = 4096;
/// RMBs of each side.
const MAX_RMBS: usize = 1024;
/// Requests without an answer.
const MAX_REQUESTS: usize = 64;
/// Links, those that are gone included.
pub(crate) const MAX_LINKS: usize = 512;

/// An LLC request that was not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) from: Side,
    pub(crate) link: LinkIndex,
    pub(crate) message: Message,
    pub(crate) frame: u64,
    pub(crate) time: u64,
    /// Whether it is a link that is not to be added any more.
    pub(crate) given_up: bool,
}

impl Request {
    /// Whether it is about RMBs, so that their set is about to change.
    pub(crate) fn is_of_rkeys(&self) -> bool {
        matches!(
            self.message.kind(),
            Kind::ConfirmRkey | Kind::ConfirmRkeyContinuation | Kind::DeleteRkey
        )
    }
}

/// The pairs of RTokens that one side announced for a link that is added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced {
    /// RMBs announced.
    pub(crate) rmbs: Vec<RmbNumber>,
    /// The last count of pairs left, and how many pairs were announced with it.
    pub(crate) remaining: Option<u8>,
    /// Whether a pair was of no RMB, or the count was not one of RMBs.
    pub(crate) odd: bool,
}

/// A link that is being added.
#[derive(Clone, Debug)]
pub(crate) struct Addition {
    /// The link that carries the exchange.
    pub(crate) carrier: LinkIndex,
    /// The new one.
    pub(crate) link: LinkIndex,
    pub(crate) accepted: bool,
    pub(crate) announced: Pair<Announced>,
    pub(crate) time: u64,
}

/// A link group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Whether the capture holds its beginning.
    pub(crate) whole: bool,
    /// Whether packets of it are missing in the capture.
    pub(crate) gaps: bool,
    pub(crate) peers: Pair<Option<PeerId>>,
    pub(crate) links: Vec<Link>,
    rmbs: Pair<VecDeque<Rmb>>,
    next_rmb: RmbNumber,
    pub(crate) connections: BTreeMap<ConnectionNumber, Connection>,
    tokens: HashMap<(Side, AlertToken), ConnectionNumber>,
    elements: HashMap<(Side, RmbNumber, u8), ConnectionNumber>,
    pub(crate) requests: VecDeque<Request>,
    pub(crate) addition: Option<Addition>,
    /// The RMB of a side whose CONFIRM RKEY has CONTINUATIONs.
    pub(crate) announcing: Pair<Option<RmbNumber>>,
    /// Whether elements of a side have an eye catcher, once CONFIRM LINK announced it.
    pub(crate) eye_catchers: Pair<Option<bool>>,
    /// Most links, of each side's CONFIRM LINK.
    pub(crate) max_links: Pair<Option<u8>>,
    /// The side that ended it.
    pub(crate) ended: Option<Side>,
    /// Whether the first contact is over, or nothing is known of it.
    pub(crate) settled: bool,
}

impl Group {
    pub(crate) fn new(whole: bool) -> Self {
        Self {
            whole,
            gaps: false,
            peers: Pair::default(),
            links: Vec::new(),
            rmbs: Pair::default(),
            next_rmb: 0,
            connections: BTreeMap::new(),
            tokens: HashMap::new(),
            elements: HashMap::new(),
            requests: VecDeque::new(),
            addition: None,
            announcing: Pair::default(),
            eye_catchers: Pair::default(),
            max_links: Pair::default(),
            ended: None,
            settled: !whole,
        }
    }

    /// Whether the whole content of the group's messages is known.
    pub(crate) const fn is_known(&self) -> bool {
        self.whole && !self.gaps
    }

    /// Where data starts in its elements, once known.
    pub(crate) fn base(&self) -> Option<u32> {
        let [client, server] = Side::BOTH.map(|side| *self.eye_catchers.of(side));
        Some(if client? || server? { 4 } else { 0 })
    }

    pub(crate) fn link(&self, index: LinkIndex) -> Option<&Link> {
        self.links.get(index)
    }

    /// The link of this number that is not gone.
    pub(crate) fn numbered(&self, number: LinkNumber) -> Option<LinkIndex> {
        let mut all = self.links.iter();
        all.position(|link| link.number == Some(number) && !link.is_gone())
    }

    /// Links that can be used.
    pub(crate) fn up(&self) -> impl Iterator<Item = (LinkIndex, &Link)> {
        self.links.iter().enumerate().filter(|(_, l)| l.is_up())
    }

    /// RMBs of a side that were not withdrawn.
    pub(crate) fn rmbs(&self, owner: Side) -> impl Iterator<Item = &Rmb> {
        let all = self.rmbs.of(owner).iter();
        all.filter(|rmb| !rmb.withdrawn)
    }

    /// The RMB of a side that has this key on a link: one that is not withdrawn, if
    /// there is one.
    pub(crate) fn rmb(&self, owner: Side, link: LinkIndex, rkey: RKey) -> Option<&Rmb> {
        let all = self.rmbs.of(owner);
        let mut live = self.rmbs(owner);
        live.find(|rmb| rmb.has_key(link, rkey)).or_else(|| {
            let mut all = all.iter().rev();
            all.find(|rmb| rmb.has_key(link, rkey))
        })
    }

    /// Notes an RToken of a side on a link: that of a known RMB, or of a new one.
    pub(crate) fn learn(&mut self, owner: Side, link: LinkIndex, rtoken: RToken) -> RmbNumber {
        if let Some(rmb) = self.rmb(owner, link, rtoken.rkey)
            && !rmb.withdrawn
        {
            return rmb.number;
        }
        let number = self.next_rmb;
        self.next_rmb += 1;
        let during = self.addition.as_ref().map(|addition| addition.link);
        let all = self.rmbs.of_mut(owner);
        if all.len() >= MAX_RMBS {
            all.pop_front();
        }
        all.push_back(Rmb {
            number,
            rtokens: vec![(link, rtoken)],
            counted: Vec::new(),
            withdrawn: false,
            during,
        });
        number
    }

    /// The RMB of an announcement that has no RToken yet on the link that carries it, but
    /// the one that an entry names on another link: it is announced again, as its owner
    /// lost the answer to the first announcement with the link that carried that.
    pub(crate) fn announced_before(
        &self,
        owner: Side,
        link: LinkIndex,
        again: &ConfirmRkey,
    ) -> Option<RmbNumber> {
        let mut live = self.rmbs(owner);
        if live.any(|rmb| rmb.has_key(link, again.rtoken.rkey)) {
            return None;
        }
        let named = |rmb: &&Rmb| {
            let entry = |entry: &LinkRToken| {
                let on = self.numbered(entry.link);
                on.is_some_and(|on| rmb.on(on) == Some(entry.rtoken))
            };
            rmb.on(link).is_none() && again.others.iter().any(entry)
        };
        self.rmbs(owner).find(named).map(|rmb| rmb.number)
    }

    /// Notes that an RMB has this RToken on a link.
    pub(crate) fn learn_on(
        &mut self,
        owner: Side,
        rmb: RmbNumber,
        link: LinkIndex,
        rtoken: RToken,
    ) {
        let mut all = self.rmbs.of_mut(owner).iter_mut();
        if let Some(rmb) = all.find(|one| one.number == rmb) {
            rmb.set(link, rtoken);
        }
    }

    /// Notes that the owner of an RMB named it by its RToken on a link.
    pub(crate) fn count(&mut self, owner: Side, rmb: RmbNumber, link: LinkIndex) {
        let mut all = self.rmbs.of_mut(owner).iter_mut();
        if let Some(rmb) = all.find(|one| one.number == rmb)
            && !rmb.counted.contains(&link)
        {
            rmb.counted.push(link);
        }
    }

    /// Notes that an RMB is withdrawn.
    pub(crate) fn withdraw(&mut self, owner: Side, link: LinkIndex, rkey: RKey) {
        let mut all = self.rmbs.of_mut(owner).iter_mut();
        if let Some(rmb) = all.find(|rmb| !rmb.withdrawn && rmb.has_key(link, rkey)) {
            rmb.withdrawn = true;
        }
    }

    /// Adds a connection.
    pub(crate) fn open(&mut self, number: ConnectionNumber, connection: Connection) {
        if self.connections.len() >= MAX_CONNECTIONS {
            let over = self.connections.iter().find(|(_, c)| c.is_over());
            let oldest = over.or_else(|| self.connections.iter().next());
            if let Some(oldest) = oldest.map(|(number, _)| *number) {
                self.forget(oldest);
            }
        }
        self.connections.insert(number, connection);
    }

    fn forget(&mut self, number: ConnectionNumber) {
        self.connections.remove(&number);
        self.tokens.retain(|_, known| *known != number);
        self.elements.retain(|_, known| *known != number);
    }

    /// Notes an end of a connection.
    pub(crate) fn set_end(&mut self, number: ConnectionNumber, side: Side, end: End) {
        if let Some(connection) = self.connections.get_mut(&number) {
            *connection.ends.of_mut(side) = Some(end);
            self.tokens.insert((side, end.token), number);
            self.elements.insert((side, end.rmb, end.index), number);
        }
    }

    /// The connection that a side gave this token.
    pub(crate) fn by_token(&self, owner: Side, token: AlertToken) -> Option<ConnectionNumber> {
        self.tokens.get(&(owner, token)).copied()
    }

    /// The connection that has an element of a side's RMB.
    pub(crate) fn by_element(
        &self,
        owner: Side,
        rmb: RmbNumber,
        index: u8,
    ) -> Option<ConnectionNumber> {
        self.elements.get(&(owner, rmb, index)).copied()
    }

    /// The latest connections of an RMB of this side.
    pub(crate) fn users(
        &self,
        owner: Side,
        rmb: RmbNumber,
    ) -> impl DoubleEndedIterator<Item = &Connection> {
        self.connections.values().filter(move |connection| {
            let end = connection.ends.of(owner);
            end.is_some_and(|end| end.rmb == rmb)
        })
    }

    /// Adds a request that is to be answered.
    pub(crate) fn ask(&mut self, request: Request) {
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }

    /// The request that this reply on this link answers.
    pub(crate) fn asked(&self, reply: &Message, by: Side, link: LinkIndex) -> Option<&Request> {
        self.requests.get(self.place_of(reply, by, link)?)
    }

    /// Takes that request out.
    pub(crate) fn answer(&mut self, reply: &Message, by: Side, link: LinkIndex) -> Option<Request> {
        let place = self.place_of(reply, by, link)?;
        self.requests.remove(place)
    }

    /// Takes out a request that waits for the same as a new one.
    pub(crate) fn supersede(&mut self, new: &Message, by: Side, link: LinkIndex) {
        let place = self.place_of(new, by, link);
        // An addition that was given up may still be answered.
        if let Some(place) = place
            && let Some(old) = self.requests.get(place)
            && (old.message.adds() == new.adds() || !old.given_up)
        {
            self.requests.remove(place);
        }
    }

    /// Notes that a link is not to be added any more.
    pub(crate) fn give_up(&mut self, link: LinkNumber) {
        let additions = self.requests.iter_mut();
        for request in additions.filter(|request| request.message.adds() == Some(link)) {
            request.given_up = true;
        }
    }

    /// Where a request of the kind of this message is: the one about the same link,
    /// if there is one.
    fn place_of(&self, message: &Message, by: Side, link: LinkIndex) -> Option<usize> {
        let (kind, adds) = (message.kind(), message.adds());
        let all = self.requests.iter().enumerate().filter(|(_, request)| {
            request.message.kind() == kind && request.from == by && request.link == link
        });
        let same = all
            .clone()
            .find(|(_, request)| request.message.adds() == adds);
        same.or_else(|| all.clone().next()).map(|(place, _)| place)
    }
}
