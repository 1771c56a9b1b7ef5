//! The resource that spans and metrics of the load belong to.

use std::collections::BTreeMap;

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::common::v1 as common;

use crate::model::id::RunId;
use crate::model::semconv;

/// The name of the load generator as a service, unless `OTEL_SERVICE_NAME` says otherwise.
const SERVICE: &str = "loadtest";

/// The attributes of this process.
pub(crate) fn attributes(run: &RunId, more: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let service = crate::sys::env::var("OTEL_SERVICE_NAME").filter(|name| !name.is_empty());
    let mut all = BTreeMap::from([
        ("service.name".to_owned(), service.unwrap_or_else(|| SERVICE.to_owned())),
        ("service.instance.id".to_owned(), format!("{}-{}", run, std::process::id())),
        ("telemetry.sdk.language".to_owned(), "rust".to_owned()),
        ("telemetry.sdk.name".to_owned(), "cargo-loadtest".to_owned()),
        ("telemetry.sdk.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        (semconv::RUN_ID.to_owned(), run.to_string()),
    ]);
    all.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    all.into_iter().collect()
}

/// For spans.
pub(crate) fn sdk(attributes: &[(String, String)]) -> opentelemetry_sdk::Resource {
    let pairs = attributes.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    opentelemetry_sdk::Resource::builder_empty().with_attributes(pairs).build()
}

/// For metrics.
pub(crate) fn proto(attributes: &[(String, String)]) -> opentelemetry_proto::tonic::resource::v1::Resource {
    opentelemetry_proto::tonic::resource::v1::Resource {
        attributes: attributes.iter().map(|(key, value)| text(key, value)).collect(),
        ..Default::default()
    }
}

/// An attribute whose value is text.
pub(crate) fn text(key: &str, value: &str) -> common::KeyValue {
    let value = common::any_value::Value::StringValue(value.to_owned());
    common::KeyValue {
        key: key.to_owned(),
        value: Some(common::AnyValue { value: Some(value) }),
        ..Default::default()
    }
}
