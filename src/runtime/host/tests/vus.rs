//! How many users a load had: at its end, and at most.

use super::*;

async fn brief(vu: &Vu) -> Result {
    vu.get("/delay/{ms}").path("ms", 10).send().await?;
    Ok(())
}

#[test]
fn a_load_that_is_shorter_than_an_interval_had_its_users() {
    let at_once = |users| stage(millis(0), users);
    for (load, vus, most) in [
        (scenario("constant", brief).constant_vus(3, millis(300)), 3, 3),
        (
            scenario("down", brief).ramping_vus([
                at_once(5),
                stage(millis(300), 5),
                at_once(2),
                stage(millis(200), 2),
            ]),
            2,
            5,
        ),
        (scenario("iterations", brief).iterations_per_vu(4, 3), 4, 4),
    ] {
        let server = Server::start();
        let name = load.name.clone();
        let outcome = run(&server, load.threshold("vus", "value>0"));
        assert_eq!((outcome.load().vus, outcome.load().vus_max), (vus, most), "{name}");
    }
}

#[test]
fn a_load_that_ends_in_the_middle_of_an_interval_had_its_last_users() {
    let server = Server::start();
    let stages = [stage(millis(0), 1), stage(millis(1200), 1), stage(millis(0), 4), stage(millis(300), 4)];
    let outcome = run(&server, scenario("up", brief).ramping_vus(stages));
    assert_eq!((outcome.load().vus, outcome.load().vus_max), (4, 4));
}

#[test]
fn the_most_users_at_a_time_are_those_of_the_load_and_not_of_its_warm_up() {
    let server = Server::start();
    let stages = [stage(millis(0), 8), stage(millis(300), 8), stage(millis(0), 2), stage(millis(300), 2)];
    let load = scenario("closed", brief).ramping_vus(stages).warm_up(millis(500));
    let outcome = run(&server, load);
    assert_eq!((outcome.load().vus, outcome.load().vus_max), (2, 2));
    assert!(outcome.stats.warm_up["closed"].iterations >= 8);

    // 40 are at work at a time in the warm-up, and one or two later.
    let later = async |vu: &Vu| -> Result {
        vu.get("/delay/{ms}").path("ms", 100).send().await?;
        Ok(())
    };
    let stages = [stage(millis(300), 400), stage(millis(0), 10), stage(millis(700), 10)];
    let open = scenario("open", later).ramping_arrival_rate(400, secs(1), stages);
    let outcome = run(&server, open.pre_allocated_vus(60).warm_up(millis(600)));
    assert!((1..20).contains(&outcome.load().vus_max), "{}", outcome.load().vus_max);
}
