//! How the engine and its host are set up: `config name=value`.

use core::time::Duration;

use smc_proto::config::{Config, Offers, OnSilence, ProposalVersion};
use smc_proto::endpoint::ConnOptions;
use smc_proto::id::{DeviceId, LanId};
use smc_proto::path::{IsmPath, LocalPath, RoceVersion, Route};
use smc_proto::storage::Limits;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::{BufferSize, Chid, Eid, IsmGid, Mtu, PeerId, Release};

use super::Direct;
use crate::script::{LIMITS, path, rnic};
use crate::scripts::parsed::{Form, Setting, Setup, Value};
use crate::scripts::read::duration;
use crate::scripts::text::Unclear;
use crate::scripts::wire::Failed;

/// Everything an engine and its host begin with.
pub(super) struct Made {
    pub(super) config: Config,
    pub(super) limits: Limits,
    pub(super) paths: Vec<LocalPath>,
    pub(super) ism_paths: Vec<IsmPath>,
    pub(super) options: ConnOptions,
    pub(super) answers: bool,
}

/// Channel of the ISM devices, an emulated one.
const CHID: Chid = Chid::LOOPBACK;

const fn device(number: u64, form: Form) -> IsmGid {
    IsmGid {
        gid: 0x1000 + number,
        gid_ext: if form.is_v2() { 9 } else { 0 },
        chid: if form.is_v2() { CHID } else { Chid(7) },
    }
}

fn ism(form: Form) -> IsmPath {
    let mut path = IsmPath::new(DeviceId(0), device(1, form));
    path.pnet_match = true;
    path.reaches_v1 = true;
    path.v2 = form.is_v2();
    path.reaches = Some(device(2, form));
    path
}

impl Made {
    fn new(setup: &Setup) -> Self {
        let form = setup.form;
        let mut config = Config::new(PeerId::new(1, path(1).mac));
        // Scripts name what happens; a pause would only be waited for.
        config.timeouts.confirm_link_delay = Duration::ZERO;
        config.offers = match form {
            Form::R1 => Offers::SMCR_V1,
            Form::R2 => Offers::SMCR_V2,
            Form::D1 => Offers::SMCD_V1,
            Form::D2 => Offers::SMCD_V2,
        };
        if form.is_v2() {
            // Four find room.
            let _ = config
                .v2
                .ueids
                .push(Eid::user("COMMON").unwrap_or_default());
        }
        let mut paths: Vec<LocalPath> = (1..=setup.rnics.min(4)).map(rnic).collect();
        if form == Form::R2 {
            for path in &mut paths {
                path.roce = RoceVersion::V2;
            }
        }
        let is_ism = form.is_ism();
        Self {
            config,
            limits: LIMITS,
            paths: if is_ism { Vec::new() } else { paths },
            ism_paths: if is_ism { vec![ism(form)] } else { Vec::new() },
            options: ConnOptions::new(Subnets::default()),
            answers: true,
        }
    }

    fn set(&mut self, setting: &Setting, form: Form) -> Result<(), String> {
        let value = &setting.value;
        let config = &mut self.config;
        let timeouts = &mut config.timeouts;
        match setting.name.as_str() {
            "proposal_version" => {
                config.proposal_version = match number::<u8>(value)? {
                    1 => ProposalVersion::V1,
                    2 => ProposalVersion::V2,
                    _ => return Err("1 or 2 was expected".to_owned()),
                };
            }
            "offers" => {
                config.offers = match word(value)? {
                    "v1" => Offers::V1,
                    "v2" => Offers::V2,
                    "smcr" => Offers::SMCR,
                    "smcd" => Offers::SMCD,
                    "all" => Offers::all(),
                    "none" => Offers::empty(),
                    _ => return Err("v1, v2, smcr, smcd, all or none was expected".to_owned()),
                };
            }
            "eye_catcher" => config.eye_catcher = flag(value)?,
            "connections_per_group" => config.connections_per_group = number(value)?,
            "elements_per_rmb" => config.elements_per_rmb = number(value)?,
            "rkey_retries" => config.rkey_retries = number(value)?,
            "max_links" => config.max_links = number(value)?,
            "receive_buffer" => config.receive_buffer = size(value)?,
            "send_buffer" => config.send_buffer = size(value)?,
            "on_confirm_link_timeout" => config.confirm_link_timeout = silence(value)?,
            "on_add_link_timeout" => config.add_link_timeout = silence(value)?,
            "tcp_reset_aborts" => config.tcp_reset_aborts = flag(value)?,
            "release" => config.v2.release = Release::new(number(value)?),
            "eid" => {
                let Value::Text(text) = value else {
                    return Err("a \"text\" was expected".to_owned());
                };
                let eid = Eid::user(text).map_err(|error| error.to_string())?;
                let pushed = config.v2.ueids.push(eid);
                pushed.map_err(|_| "four EIDs are the most")?;
            }
            "no_eid" => config.v2.ueids = Default::default(),
            "seid" => {
                let Value::Text(text) = value else {
                    return Err("a \"text\" was expected".to_owned());
                };
                let mut seid = [b' '; 32];
                let place = seid.get_mut(..text.len());
                let place = place.ok_or("this is longer than an EID")?;
                place.copy_from_slice(text.as_bytes());
                config.v2.seid = Some(Eid(seid));
            }
            "clc_message" => timeouts.clc_message = time(value)?,
            "rendezvous" => timeouts.rendezvous = time(value)?,
            "confirm_link_request" => timeouts.confirm_link_request = time(value)?,
            "llc_reply" => timeouts.llc_reply = time(value)?,
            "add_link_request" => timeouts.add_link_request = time(value)?,
            "decline_wait" => timeouts.decline = time(value)?,
            "crossing_decline" => timeouts.crossing_decline = time(value)?,
            "confirm_link_delay" => timeouts.confirm_link_delay = time(value)?,
            "control_command" => timeouts.control_command = time(value)?,
            "keepalive" => timeouts.keepalive = time(value)?,
            "test_link_reply" => timeouts.test_link_reply = time(value)?,
            "group_idle" => {
                timeouts.group_idle_server = time(value)?;
                timeouts.group_idle_client = time(value)?;
            }
            "rmb_idle" => timeouts.rmb_idle = time(value)?,
            "send_slot" => timeouts.send_slot = time(value)?,
            "rkey_retry" => timeouts.rkey_retry = time(value)?,
            "added_link" => timeouts.added_link = time(value)?,
            "add_link_retry" => timeouts.add_link_retry = time(value)?,
            "close_wait" => config.connection.close_wait = time(value)?,
            "abort_wait" => config.connection.abort_wait = time(value)?,
            "linger" => config.connection.linger = time(value)?,
            "coalesce" => config.connection.coalesce = time(value)?,
            "cursor_lag" => config.connection.cursor_lag = time(value)?,
            "connections" => self.limits.connections = number(value)?,
            "handshakes" => self.limits.handshakes = number(value)?,
            "groups" => self.limits.groups = number(value)?,
            "links" => self.limits.links = number(value)?,
            "buffers" => self.limits.buffers = number(value)?,
            "remote_rmbs" => self.limits.remote_rmbs = number(value)?,
            "mtu" => {
                let mtu = Mtu::from_code(number(value)?);
                self.paths.iter_mut().for_each(|path| path.mtu = mtu);
            }
            "lans" => {
                for (path, lan) in self.paths.iter_mut().zip(1..) {
                    path.lan = LanId(lan);
                }
            }
            "subnet_match" => {
                let is = flag(value)?;
                self.paths
                    .iter_mut()
                    .for_each(|path| path.subnet_match = is);
            }
            "route" => {
                let route = match word(value)? {
                    "direct" => Route::Direct,
                    "gateway" => Route::Gateway,
                    "none" => Route::None,
                    _ => return Err("direct, gateway or none was expected".to_owned()),
                };
                self.paths.iter_mut().for_each(|path| path.route = route);
            }
            "ports" => self.paths.truncate(number(value)?),
            "ism" => {
                if flag(value)? {
                    self.ism_paths = vec![ism(form)];
                } else {
                    self.ism_paths.clear();
                }
            }
            "attaches" => {
                let is = flag(value)?;
                self.ism_paths
                    .iter_mut()
                    .for_each(|path| path.attaches = is);
            }
            "reaches" => {
                let is = flag(value)?;
                for path in &mut self.ism_paths {
                    path.reaches_v1 = is;
                    path.reaches = path.reaches.filter(|_| is);
                }
            }
            "pnet_match" => {
                let is = flag(value)?;
                self.ism_paths
                    .iter_mut()
                    .for_each(|path| path.pnet_match = is);
            }
            "answers" => self.answers = flag(value)?,
            name => return option(&mut self.options, name, value),
        }
        Ok(())
    }
}

/// What is known of a TCP connection.
fn option(options: &mut ConnOptions, name: &str, value: &Value) -> Result<(), String> {
    match name {
        "option" => options.option_negotiated = flag(value)?,
        "subnets" => options.subnets = flag(value)?.then(Subnets::default),
        "ipv4" => options.ipv4 = flag(value)?,
        "vlan" => options.vlan = Some(number(value)?),
        "receive" => options.receive_buffer = Some(size(value)?),
        "send" => options.send_buffer = Some(size(value)?),
        "nodelay" => options.nodelay = flag(value)?,
        "urgent_inline" => options.urgent_inline = flag(value)?,
        _ => return Err("this is no setting of an engine, its host or a connection".to_owned()),
    }
    Ok(())
}

fn number<T: TryFrom<u128>>(value: &Value) -> Result<T, String> {
    let Value::Number(number, _) = value else {
        return Err("a number was expected".to_owned());
    };
    T::try_from(*number).map_err(|_| "a smaller number was expected".to_owned())
}

fn word(value: &Value) -> Result<&str, String> {
    match value {
        Value::Word(word) => Ok(word),
        _ => Err("a word was expected".to_owned()),
    }
}

fn flag(value: &Value) -> Result<bool, String> {
    match word(value) {
        Ok("yes") => Ok(true),
        Ok("no") => Ok(false),
        _ => Err("yes or no was expected".to_owned()),
    }
}

fn time(value: &Value) -> Result<Duration, String> {
    let text = match value {
        Value::Number(0, _) => "0",
        value => word(value).unwrap_or(""),
    };
    duration(text).ok_or_else(|| "a time such as 10ms was expected".to_owned())
}

fn size(value: &Value) -> Result<BufferSize, String> {
    Ok(BufferSize::at_least(number(value)?))
}

fn silence(value: &Value) -> Result<OnSilence, String> {
    match word(value) {
        Ok("decline") => Ok(OnSilence::Interoperate),
        Ok("reset") => Ok(OnSilence::Reset),
        _ => Err("decline or reset was expected".to_owned()),
    }
}

/// Applies a setup.
pub(super) fn apply(setup: &Setup) -> Result<Made, Unclear> {
    let mut made = Made::new(setup);
    for setting in &setup.settings {
        made.set(setting, setup.form).map_err(|what| Unclear {
            file: setting.at.file.to_string(),
            line: setting.at.line,
            column: setting.at.column,
            what: format!("{}: {what}", setting.name),
        })?;
    }
    Ok(made)
}

impl Direct {
    /// The host's options for a connection, changed.
    pub(super) fn options_with(&self, settings: &[Setting]) -> Result<ConnOptions, Failed> {
        let mut options = self.options.clone();
        for setting in settings {
            option(&mut options, &setting.name, &setting.value)
                .map_err(|what| format!("{}: {what}", setting.name))?;
        }
        Ok(options)
    }
}
