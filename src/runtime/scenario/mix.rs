//! Several flows in one scenario, by weight: exact over each cycle of the weights, not by chance.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::LocalBoxFuture;

use super::flow::{Flow, Shared, UserState};
use super::{Scenario, Vu};
use crate::model::flow::FlowInfo;
use crate::runtime::error::{Error, Result};

/// How many iterations a cycle may have. All of it is laid out beforehand.
const LONGEST_CYCLE: u64 = 100_000;

/// A scenario each of whose iterations is one of several flows: as often as its weight says, exactly in each cycle of
/// the weights, over all users together.
///
/// With the weights 7, 2 and 1, of any ten iterations that begin one after the other seven are the first flow's, two the
/// second's and one the third's, spread evenly. A flow is what [`scenario`](crate::scenario) or
/// [`stateful`](crate::stateful) makes, with its setups and data; load, reference and thresholds are the mix's own. Every
/// user is set up for each of the flows. The summary counts the iterations of each, and all that one measures has the tag
/// `flow` with its name, so that a threshold can be on `http_req_duration{flow:buy}`.
///
/// A mix without flows, a weight of 0, two flows of one name, and a flow with a load or thresholds are errors (exit code 2).
///
/// ```
/// use loadtest::prelude::*;
///
/// async fn browse(vu: &Vu) -> Result {
///     vu.get("/products").send().await?;
///     Ok(())
/// }
/// async fn buy(vu: &Vu) -> Result {
///     vu.post("/orders").send().await?;
///     Ok(())
/// }
/// let shop = mix("shop", [(9, scenario("browse", browse)), (1, scenario("buy", buy))]).constant_vus(20, mins(5));
/// # let _ = shop;
/// ```
pub fn mix(name: impl Into<Cow<'static, str>>, flows: impl IntoIterator<Item = (u32, Scenario)>) -> Scenario {
    let mut flows: Vec<(u32, Scenario)> = flows.into_iter().collect();
    let fault = fault(&flows);
    let weights: Vec<u32> = flows.iter().map(|(weight, _)| *weight).collect();
    let infos = flows.iter().map(|(weight, flow)| FlowInfo { name: flow.name.clone(), weight: *weight });
    let infos: Vec<FlowInfo> = infos.collect();
    let data = flows.iter_mut().flat_map(|(_, flow)| std::mem::take(&mut flow.data)).collect();
    let mixed = Mixed {
        cycle: if fault.is_none() { interleaved(&weights) } else { Vec::new() },
        begun: AtomicU64::new(0),
        flows: flows.into_iter().map(|(_, flow)| (flow.name.into(), flow.flow)).collect(),
    };
    let mut mix = Scenario::new(name.into(), Arc::new(mixed));
    mix.measures.declare_flows(&infos);
    (mix.data, mix.flows, mix.fault) = (data, infos, fault);
    mix
}

/// Why these flows cannot be mixed.
fn fault(flows: &[(u32, Scenario)]) -> Option<String> {
    if flows.is_empty() {
        return Some("the mix has no flows; give it at least one".to_owned());
    }
    let mut seen = BTreeSet::new();
    for (weight, flow) in flows {
        let name = &flow.name;
        if let Err(why) = flow.info() {
            return Some(format!("in its mix, {why}"));
        }
        if *weight == 0 {
            return Some(format!("the flow `{name}` has the weight 0; leave it out, or give it at least 1"));
        }
        if !seen.insert(name) {
            return Some(format!("two of its flows are called `{name}`; give each a name of its own"));
        }
        if !flow.flows.is_empty() {
            return Some(format!("the flow `{name}` is a mix itself; put its flows here in its place"));
        }
        if has_settings(flow) {
            let message = "has a load, thresholds or other settings of its own; give them to the mix";
            return Some(format!("the flow `{name}` {message}"));
        }
    }
    let weights: Vec<u32> = flows.iter().map(|(weight, _)| *weight).collect();
    let length = reduced(&weights).iter().sum::<u64>();
    (length > LONGEST_CYCLE).then(|| {
        format!("the weights of its flows add up to {length}; at most {LONGEST_CYCLE} can be kept exactly")
    })
}

/// Whether more than its name, its code and its data has been said.
fn has_settings(scenario: &Scenario) -> bool {
    let Scenario {
        name,
        flow,
        load,
        extent,
        timing,
        env,
        reference,
        graceful_stop,
        graceful_ramp_down,
        requests,
        site: _,
        data: _,
        flows: _,
        fault: _,
        measures,
    } = scenario;
    let bare = Scenario::new(Cow::Owned(name.clone()), flow.clone());
    (load, extent, timing, env) != (&bare.load, &bare.extent, &bare.timing, &bare.env)
        || (reference, requests, measures) != (&bare.reference, &bare.requests, &bare.measures)
        || (graceful_stop, graceful_ramp_down) != (&bare.graceful_stop, &bare.graceful_ramp_down)
}

/// The weights without what they have all in common.
fn reduced(weights: &[u32]) -> Vec<u64> {
    fn common(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { common(b, a % b) }
    }
    let divisor = weights.iter().fold(0, |divisor, weight| common(divisor, u64::from(*weight))).max(1);
    weights.iter().map(|weight| u64::from(*weight) / divisor).collect()
}

/// The places of the flows in one cycle: each as often as its weight says, and at no point one whole iteration before
/// or behind its share.
///
/// The n-th iteration of a flow of weight w in a cycle of length L belongs into the slots from ⌊nL/w⌋ to ⌈(n+1)L/w⌉.
/// Whichever is due first goes first, among those that may: this is earliest deadline first for tasks that fill one
/// processor exactly, which meets every deadline (Baruah et al., "Proportionate progress", 1996).
fn interleaved(weights: &[u32]) -> Vec<u32> {
    let weights = reduced(weights);
    let length: u64 = weights.iter().sum();
    let mut had = vec![0_u64; weights.len()];
    (0..length)
        .filter_map(|slot| {
            let may = |flow: &usize| had[*flow] * length / weights[*flow] <= slot;
            let due = |flow: &usize| ((had[*flow] + 1) * length).div_ceil(weights[*flow]);
            let next =
                (0..weights.len()).filter(|flow| had[*flow] < weights[*flow]).filter(may).min_by_key(due)?;
            had[next] += 1;
            Some(next as u32)
        })
        .collect()
}

struct Mixed {
    /// Places in `flows`.
    cycle: Vec<u32>,
    /// Iterations that have begun, of all users.
    begun: AtomicU64,
    flows: Vec<(Arc<str>, Arc<dyn Flow>)>,
}

/// What the setups of the flows made, in their order.
struct SharedByFlow(Vec<Shared>);

/// What one user keeps for each flow.
struct StateByFlow(Vec<UserState>);

impl Flow for Mixed {
    fn setup<'a>(&'a self, vu: &'a Vu) -> LocalBoxFuture<'a, Result<Shared>> {
        Box::pin(async move {
            let mut made = Vec::new();
            for (name, flow) in &self.flows {
                made.push(flow.setup(vu).await.map_err(|error| of_flow(name, &error))?);
            }
            Ok(Arc::new(SharedByFlow(made)) as Shared)
        })
    }

    fn user_setup<'a>(&'a self, vu: &'a Vu, shared: &'a Shared) -> LocalBoxFuture<'a, Result<UserState>> {
        Box::pin(async move {
            let mut made = Vec::new();
            for ((name, flow), shared) in self.flows.iter().zip(shared_by_flow(shared)) {
                made.push(flow.user_setup(vu, shared).await.map_err(|error| of_flow(name, &error))?);
            }
            Ok(Box::new(StateByFlow(made)) as UserState)
        })
    }

    fn iterate<'a>(
        &'a self,
        vu: &'a Vu,
        state: &'a mut UserState,
        shared: &'a Shared,
    ) -> LocalBoxFuture<'a, Result> {
        let turn = self.begun.fetch_add(1, Ordering::Relaxed) % self.cycle.len() as u64;
        let place = self.cycle[turn as usize] as usize;
        let (name, flow) = &self.flows[place];
        let states: &mut StateByFlow =
            <dyn Any>::downcast_mut(&mut **state).expect("the state that this mix's own user setup made");
        vu.set_flow(name);
        flow.iterate(vu, &mut states.0[place], &shared_by_flow(shared)[place])
    }

    fn teardown(&self, shared: Shared) -> LocalBoxFuture<'_, Result> {
        Box::pin(async move {
            let shared = shared.downcast::<SharedByFlow>().expect("the value that this mix's own setup made");
            let shared = Arc::try_unwrap(shared).map_err(|_| "a user still holds what the setup made")?;
            // One that fails keeps none of the others from cleaning up.
            let mut failed = Vec::new();
            for ((name, flow), shared) in self.flows.iter().zip(shared.0) {
                if let Err(error) = flow.teardown(shared).await {
                    failed.push(of_flow(name, &error).to_string());
                }
            }
            if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
        })
    }
}

fn shared_by_flow(shared: &Shared) -> &[Shared] {
    let shared: &SharedByFlow = shared.downcast_ref().expect("the value that this mix's own setup made");
    &shared.0
}

fn of_flow(name: &str, error: &Error) -> Error {
    format!("flow `{name}`: {}", error.chain()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use proptest::prelude::*;

    async fn nothing(_: &Vu) -> Result {
        Ok(())
    }

    fn of(weights: &[u32]) -> Scenario {
        let flow = |(at, weight): (usize, &u32)| (*weight, scenario(format!("f{at}"), nothing));
        mix("shop", weights.iter().enumerate().map(flow))
    }

    #[test]
    fn what_cannot_be_mixed_is_refused_with_the_reason() {
        let plain = || scenario("a", nothing);
        for (flows, message) in [
            (vec![], "scenario `shop`: the mix has no flows"),
            (vec![(1, plain()), (0, scenario("b", nothing))], "the flow `b` has the weight 0"),
            (vec![(1, plain()), (2, plain())], "two of its flows are called `a`"),
            (vec![(1, plain().constant_vus(1, secs(1)))], "the flow `a` has a load"),
            (vec![(1, plain().threshold("checks", "rate>0.9"))], "the flow `a` has a load, thresholds"),
            (vec![(1, plain().graceful_stop(secs(1)))], "the flow `a` has a load, thresholds or other"),
            (vec![(1, plain().keep_cookies())], "the flow `a` has a load, thresholds or other"),
            (vec![(1, plain().start_time(secs(1)))], "the flow `a` has a load, thresholds or other"),
            (vec![(1, plain().env("A", "b"))], "the flow `a` has a load, thresholds or other"),
            (vec![(1, plain().tag("a", "b"))], "the flow `a` has a load, thresholds or other"),
            (vec![(1, mix("inner", [(1, plain())]))], "the flow `inner` is a mix itself"),
            (vec![(1, scenario("a b", nothing))], "in its mix, `a b` is no scenario name"),
            (vec![(1, mix("inner", []))], "in its mix, scenario `inner`: the mix has no flows"),
            (vec![(99_999, plain()), (2, scenario("b", nothing))], "add up to 100001; at most 100000"),
        ] {
            let error = mix("shop", flows).info().unwrap_err();
            assert!(error.contains(message), "{error}\n{message}");
        }
        assert!(of(&[4_000_000_000, 2_000_000_000]).info().is_ok(), "2 to 1");
        let info = of(&[7, 2]).constant_vus(1, secs(1)).info().unwrap();
        let flow = |name: &str, weight| FlowInfo { name: name.to_owned(), weight };
        assert_eq!(info.flows, [flow("f0", 7), flow("f1", 2)]);
    }

    #[test]
    fn a_cycle_is_spread_evenly_and_not_in_blocks() {
        assert_eq!(interleaved(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(interleaved(&[30, 10]), [0, 0, 0, 1]);
        assert_eq!(interleaved(&[2, 3]), [1, 0, 1, 0, 1]);
    }

    proptest! {
        #[test]
        fn every_window_of_a_cycles_length_has_the_weights_and_no_flow_is_ahead_or_behind(
            weights in prop::collection::vec(1_u32..40, 1..9),
        ) {
            let cycle = interleaved(&weights);
            let sum: u32 = weights.iter().sum();
            prop_assert_eq!(sum as usize % cycle.len(), 0);
            let cycles = sum / cycle.len() as u32;
            let count = |slots: &[u32], flow| slots.iter().filter(|of| **of == flow as u32).count();
            let twice = [cycle.clone(), cycle.clone()].concat();
            for (flow, weight) in weights.iter().enumerate() {
                for window in twice.windows(cycle.len()) {
                    prop_assert_eq!(count(window, flow) as u32 * cycles, *weight);
                }
                for so_far in 0..=cycle.len() {
                    let share = so_far as f64 * f64::from(*weight) / f64::from(sum);
                    prop_assert!((count(&cycle[..so_far], flow) as f64 - share).abs() < 1.0);
                }
            }
        }
    }
}
