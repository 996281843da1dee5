//! Failures that meet something else: another failure, a rendezvous, an RNIC
//! that acknowledged what it never placed. `FAILOVER_ALL=1` visits every state
//! (some minutes).
#![allow(clippy::print_stdout)]

use conformance::twolinks::Action::{Urgent, Write};
use conformance::twolinks::explore::{Expect, Scenario};
use conformance::twolinks::failure::Late;
use conformance::twolinks::{Failure, Item, Shape, World};
use smc_proto::id::LinkId;

const RING: u64 = 16 << 10;

/// Runs a case, and again with a log if it fails.
fn case(name: &str, run: impl Fn(&mut World), start: &World) {
    let mut world = start.clone();
    run(&mut world);
    if !world.errors.is_empty() {
        let mut world = start.clone();
        world.log = Some(Vec::new());
        run(&mut world);
        panic!(
            "{}\n{}\nin the case {name}",
            world.log.unwrap_or_default().join("\n"),
            world.errors.join("\n")
        );
    }
}

#[test]
fn acknowledged_but_not_placed_resets_both_ends() {
    //= FAILOVER-014 test
    //= FAILOVER-013 test
    let mut lied = 0;
    let mut truthful = 0;
    for offset in [0, RING - 150] {
        let mut scenario = Scenario::new("lied", &[Write(100), Write(200)], &[Write(50)]);
        scenario.offsets = [offset, 0];
        scenario.explore_cases(&[], |world, path, _| {
            let run = |world: &mut World| {
                let Some(ends) = world.busy_link() else {
                    return;
                };
                let lost = unplaced_sends(world, ends);
                world.fail(Failure::Lied(0));
                let expect = if lost {
                    Expect::DataLost(0)
                } else {
                    Expect::Clean
                };
                world.finish(Failure::Lied(0), expect);
            };
            let ends = world.clone().busy_link().expect("a link");
            if unplaced_sends(&mut world.clone(), ends) {
                lied += 1;
            } else {
                truthful += 1;
            }
            case(path, run, world);
        });
    }
    println!("{lied} lies, {truthful} truths");
    assert!(lied > 100 && truthful > 100);
}

/// CONFIRM LINK has the number by which each end knows a link.
#[test]
fn both_ends_know_each_link_by_both_numbers() {
    let mut world = World::connected(&Shape::default(), [0, 0]);
    let qps = world.hosts[0].nic.qps();
    let links: Vec<_> = qps.map(|qp| qp.link).collect();
    assert_eq!(links.len(), 2);
    let mut seen = Vec::new();
    for link in links {
        let other = world.other_end(0, link).unwrap();
        let here = world.hosts[0].endpoint.link(link).unwrap().user_ids;
        let there = world.hosts[1].endpoint.link(other).unwrap().user_ids;
        assert_eq!(here, (there.1, there.0));
        assert!(here.0.0 != 0 && here.1.0 != 0, "{here:?}");
        assert!(!seen.contains(&here), "{here:?} twice");
        seen.push(here);
    }
}

/// Whether the client's RNIC has a SEND that did not arrive.
fn unplaced_sends(world: &mut World, ends: [LinkId; 2]) -> bool {
    world.hosts[0].nic.qp(ends[0]).is_some_and(|qp| {
        qp.work
            .posted
            .iter()
            .skip(qp.work.arrived)
            .any(|item| matches!(item, Item::Send { .. }))
    })
}

/// After each first failure, after each number of steps, a second one.
fn twice(shape: &Shape, firsts: &[Failure], seconds: &[Failure], most: usize) {
    let mut cases = 0;
    let mut survived = 0;
    let mut scenario = Scenario::new("twice", &[Write(100), Urgent(200)], &[Write(50)]);
    scenario.shape = shape.clone();
    scenario.offsets = [RING - 150, RING - 20];
    let every = if std::env::var("FAILOVER_ALL").is_ok() {
        1
    } else {
        23
    };
    let mut number = 0;
    scenario.explore_cases(&[], |world, path, _| {
        number += 1;
        if number % every != 0 {
            return;
        }
        for first in firsts {
            let mut failing = world.clone();
            failing.fail(*first);
            for steps in 0..most {
                for second in seconds {
                    cases += 1;
                    let run = |world: &mut World| {
                        let Some(ends) = world.busy_link() else {
                            return;
                        };
                        let expect = if world.survives(ends) {
                            Expect::Clean
                        } else {
                            Expect::GroupLost
                        };
                        // The validation may be on the link that fails next.
                        world.patient = true;
                        world.fail_link(*second, ends);
                        world.finish(*second, expect);
                    };
                    let name = format!("{path}/{first}/{steps}/{second}");
                    case(&name, run, &failing);
                    if failing
                        .clone()
                        .busy_link()
                        .is_some_and(|ends| failing.clone().survives(ends))
                    {
                        survived += 1;
                    }
                }
                if !failing.nudge() && steps > 0 {
                    break;
                }
            }
        }
    });
    println!("{cases} cases, {survived} with a link left");
    assert!(survived > cases / 5);
}

#[test]
fn a_second_link_of_three_fails_during_the_failover() {
    //= CASE-D17 test
    //= FAILOVER-002 test
    //= FAILOVER-016 test
    let shape = Shape {
        ports: [3, 3],
        links: 3,
        ..Shape::default()
    };
    let firsts = [
        Failure::Broken(0, Late::Nothing),
        Failure::BothBroken(1),
        Failure::PortDown(1, Late::Arrives),
    ];
    let seconds = [Failure::Broken(1, Late::Completes), Failure::BothBroken(0)];
    twice(&shape, &firsts, &seconds, 30);
}

#[test]
fn the_other_link_fails_while_the_first_returns() {
    let firsts = [Failure::BothBroken(0), Failure::Deleted(1, Late::Nothing)];
    let seconds = [
        Failure::BothBroken(1),
        Failure::Broken(0, Late::Nothing),
        Failure::Deleted(0, Late::Nothing),
    ];
    twice(&Shape::default(), &firsts, &seconds, 60);
}

#[test]
fn a_link_fails_at_every_step_of_another_rendezvous() {
    let mut cases = 0;
    for elements in [1, 4] {
        let shape = Shape {
            elements,
            ..Shape::default()
        };
        let mut world = World::connected(&shape, [0, 0]);
        world.hosts[0].apps[0].script = vec![Write(100), Write(100), Write(100)];
        world.hosts[1].apps[0].script = vec![Write(50)];
        world.open(&shape);
        world.hosts[0].apps[1].script = vec![Write(300)];
        world.hosts[1].apps[1].script = vec![Write(400)];
        for steps in 0..200 {
            for failure in Failure::ALL {
                cases += 1;
                let run = |world: &mut World| {
                    world.fail(failure);
                    world.finish(failure, Expect::Clean);
                };
                case(&format!("{elements}/{steps}/{failure}"), run, &world);
            }
            if !world.nudge() {
                break;
            }
        }
    }
    println!("{cases} cases");
}

#[test]
fn one_side_has_a_single_port() {
    //= LINK-009 test
    for ports in [[1, 2], [2, 1]] {
        let mut scenario = Scenario::new("asymmetric", &[Write(100), Write(200)], &[Write(50)]);
        scenario.shape.ports = ports;
        scenario.offsets = [RING - 150, 0];
        let count = scenario.explore(&[
            Failure::Broken(0, Late::Nothing),
            Failure::Broken(1, Late::Completes),
            Failure::BothBroken(0),
            Failure::BothBroken(1),
            Failure::Silence,
            Failure::Deleted(0, Late::Nothing),
            Failure::Deleted(1, Late::Nothing),
        ]);
        println!("{count:?}");
    }
}
