//! The environment that a service is started with.
//!
//! Sampling: a service follows its caller (`parentbased_always_on`), so that the load's own decision holds in the whole
//! chain. `parentbased_always_off` would also silence requests from outside this run, but then a service that loses
//! the caller's context falls silent instead of showing up with another trace id, which is what `doctor` looks for.
//! Readiness probes make no spans because they carry a `traceparent` that says "not sampled".

use std::collections::BTreeMap;

/// What services learn about telemetry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Telemetry<'a> {
    /// The embedded receiver.
    pub(super) endpoint: &'a str,
    /// `false` with `--trace off`.
    pub(super) traced: bool,
}

/// The complete environment of `service`: `inherited` without anything of OpenTelemetry and of this tool, the
/// receiver's address, and the service's `own` values over it.
pub(super) fn environment(
    inherited: impl IntoIterator<Item = (String, String)>,
    service: &str,
    telemetry: Telemetry<'_>,
    own: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<_, _> =
        inherited.into_iter().filter(|(name, _)| !is_reserved(name)).collect();
    bypass_proxies(&mut variables);
    let sampler = if telemetry.traced { "parentbased_always_on" } else { "always_off" };
    let ours = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", telemetry.endpoint.to_owned()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned()),
        ("OTEL_SERVICE_NAME", service.to_owned()),
        ("OTEL_RESOURCE_ATTRIBUTES", format!("loadtest.service={service}")),
        ("OTEL_TRACES_SAMPLER", sampler.to_owned()),
        // The last spans of a run should arrive soon after it, and a burst should not overflow the queue.
        ("OTEL_BSP_SCHEDULE_DELAY", "200".to_owned()),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "65536".to_owned()),
    ];
    variables.extend(ours.map(|(name, value)| (name.to_owned(), value)));
    variables.extend(own);
    variables
}

fn is_reserved(name: &str) -> bool {
    ["OTEL_", "LOADTEST_", "__LOADTEST_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Services reach each other and the receiver on loopback: a proxy that is meant for the network stays out of it.
fn bypass_proxies(variables: &mut BTreeMap<String, String>) {
    let is_proxy = |name: &String| {
        ["http_proxy", "https_proxy", "all_proxy"].iter().any(|proxy| name.eq_ignore_ascii_case(proxy))
    };
    if !variables.keys().any(is_proxy) {
        return;
    }
    for name in ["NO_PROXY", "no_proxy"] {
        let exceptions = variables.entry(name.to_owned()).or_default();
        let separator = if exceptions.is_empty() { "" } else { "," };
        exceptions.push_str(separator);
        exceptions.push_str("127.0.0.1,localhost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(inherited: &[(&str, &str)], traced: bool, own: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let telemetry = Telemetry { endpoint: "http://127.0.0.1:4317", traced };
        environment(owned(inherited), "auth", telemetry, owned(own))
    }

    #[test]
    fn a_service_is_pointed_at_the_receiver() {
        insta::assert_debug_snapshot!(of(&[("PATH", "/bin")], true, &[("BCRYPT_COST", "12")]), @r#"
        {
            "BCRYPT_COST": "12",
            "OTEL_BSP_MAX_QUEUE_SIZE": "65536",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_RESOURCE_ATTRIBUTES": "loadtest.service=auth",
            "OTEL_SERVICE_NAME": "auth",
            "OTEL_TRACES_SAMPLER": "parentbased_always_on",
            "PATH": "/bin",
        }
        "#);
    }

    #[test]
    fn inherited_telemetry_and_tool_variables_do_not_reach_a_service() {
        let inherited = [
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://vendor.example"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=canary"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.1"),
            ("LOADTEST_PASSWORD", "canary"),
            ("__LOADTEST_TOKEN", "canary"),
        ];
        assert_eq!(of(&inherited, true, &[]), of(&[], true, &[]));
    }

    #[test]
    fn without_tracing_services_sample_nothing() {
        assert_eq!(of(&[], false, &[])["OTEL_TRACES_SAMPLER"], "always_off");
    }

    #[test]
    fn the_services_own_values_win() {
        assert_eq!(of(&[("A", "1")], true, &[("A", "2")])["A"], "2");
        assert_eq!(
            of(&[], true, &[("OTEL_TRACES_SAMPLER", "always_on")])["OTEL_TRACES_SAMPLER"],
            "always_on"
        );
    }

    #[test]
    fn a_proxy_is_not_used_for_loopback() {
        assert!(!of(&[], true, &[]).contains_key("NO_PROXY"));
        let variables = of(&[("HTTPS_proxy", "http://proxy:3128"), ("NO_PROXY", "example.com")], true, &[]);
        assert_eq!(variables["NO_PROXY"], "example.com,127.0.0.1,localhost");
        assert_eq!(variables["no_proxy"], "127.0.0.1,localhost");
    }
}
