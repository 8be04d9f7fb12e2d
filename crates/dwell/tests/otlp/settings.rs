//! Where spans are sent, and as whose.

use std::process::Stdio;

use serde_json::json;

use crate::client::Client;
use crate::collector::{Collector, attribute, decoded, resource};
use crate::server::{dwell, run, start, temporary};

#[test]
fn spans_say_whose_they_are_and_go_by_no_proxy() {
    for name in [None, Some("queue of the shop")] {
        let collector = Collector::new();
        let mut command = dwell(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:"]);
        command.env("DWELL_OTLP_ENDPOINT", collector.url()).stderr(Stdio::null());
        for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
            command.env(proxy, "http://127.0.0.1:1");
        }
        command.envs(name.map(|name| ("OTEL_SERVICE_NAME", name)));
        let (mut child, address, banner) = start(&mut command);
        assert!(banner.contains(&format!("  traces      {}/v1/traces\n", collector.url())), "{banner}");
        Client::new(address).put_job("t", "a", json!({}));
        let attributes = resource(&decoded(&collector.receiver.next())).attributes;
        assert_eq!(attribute(&attributes, "service.name").as_deref(), name.or(Some("dwell")));
        assert_eq!(attribute(&attributes, "service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert!(attribute(&attributes, "host.name").is_some_and(|name| !name.is_empty()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_file_can_say_it() {
    let (directory, collector) = (temporary(), Collector::new());
    let file = directory.path().join("dwell.toml");
    let text = "listen = \"127.0.0.1:0\"\nstore = \"memory:\"\notlp_ratio = 1.0\n";
    std::fs::write(&file, format!("{text}otlp_endpoint = \"{}\"\n", collector.url())).unwrap();
    let (mut child, address, _) = start(dwell(&["serve", "--config", file.to_str().unwrap()]).stderr(Stdio::null()));
    Client::new(address).put_job("t", "a", json!({}));
    collector.span("PUT /v1/topics/{topic}/jobs/{id}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn wrong_settings_are_refused() {
    let here = "http://127.0.0.1:4318";
    for (flags, why) in [
        (&["--otlp-endpoint", "127.0.0.1:4318"][..], "try \"http://127.0.0.1:4318\""),
        (&["--otlp-endpoint", "grpc://127.0.0.1:4317"], "is not the address of a collector"),
        (&["--otlp-endpoint", here, "--otlp-ratio", "2"], "is not a number from 0 to 1"),
        (&["--otlp-ratio", "0.5"], "does nothing without a collector"),
    ] {
        let ended = run(dwell(&["serve", "--store", "memory:"]).args(flags));
        assert!(ended.code == Some(78) && ended.stderr.contains(why), "{flags:?}: {ended:?}");
    }
    let secret = run(&mut dwell(&["serve", "--store", "memory:", "--otlp-endpoint", "http://me:s3cr3t@a?b=c"]));
    assert!(secret.code == Some(78) && !secret.stderr.contains("s3cr3t"), "{secret:?}");
}
