//! Flags, environment and file: which one holds, and how mistakes are shown.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;

use crate::client::Client;
use crate::server::{Ended, dwell, run, start, temporary};

/// A configuration file with this text.
fn file(text: &str) -> (TempDir, PathBuf) {
    let directory = temporary();
    let path = directory.path().join("dwell.toml");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

/// How a start with this file ends.
fn refused(text: &str) -> (Ended, String) {
    let (_directory, path) = file(text);
    let path = path.to_str().unwrap();
    let ended = run(&mut dwell(&["serve", "--config", path]));
    (ended, path.to_owned())
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file() {
    let (directory, path) =
        file("listen = \"127.0.0.1:0\"\nstore = \"memory:\"\nmax_body = 100\ntoken = [\"from-file\"]\n");
    let limit = |flags: &[&str], variables: &[(&str, &str)], token: &str| {
        let mut command = dwell(&["serve", "--config", path.to_str().unwrap()]);
        command.args(flags).envs(variables.iter().copied()).current_dir(directory.path()).stderr(Stdio::null());
        let (mut child, address, _) = start(&mut command);
        let authorization = format!("Bearer {token}");
        let info = Client::new(address).send("GET", "/v1/info", &[("authorization", &authorization)], None).ok(200);
        child.kill().unwrap();
        child.wait().unwrap();
        info["limits"]["body"].clone()
    };
    assert_eq!(limit(&[], &[], "from-file"), 100);
    assert_eq!(limit(&[], &[("DWELL_MAX_BODY", "200")], "from-file"), 200);
    assert_eq!(limit(&["--max-body", "300"], &[("DWELL_MAX_BODY", "200")], "from-file"), 300);
    assert_eq!(limit(&[], &[("DWELL_TOKEN", "from-env")], "from-env"), 100);
    assert_eq!(limit(&["--token", "from-flag"], &[("DWELL_TOKEN", "from-env")], "from-flag"), 100);
}

#[test]
fn every_flag_is_a_variable_and_a_key() {
    let directory = temporary();
    let data = directory.path().join("kept");
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "secret\n").unwrap();
    let settings = [
        ("LISTEN", "127.0.0.1:0"),
        ("DATA_DIR", data.to_str().unwrap()),
        ("DURABILITY", "interval:10ms"),
        ("TOKEN_FILE", tokens.to_str().unwrap()),
        ("MEMORY", "16MiB"),
        ("MAX_BODY", "1KiB"),
        ("MAX_CONNECTIONS", "50"),
        ("LOG", "warn"),
        ("LOG_FORMAT", "json"),
        ("DEV_CLOCK", "true"),
        ("ACCEPT_CLOCK", "true"),
    ];
    let as_file: String = settings
        .iter()
        .map(|(name, value)| {
            if *value == "true" {
                format!("{} = true\n", name.to_lowercase())
            } else {
                format!("{} = \"{value}\"\n", name.to_lowercase())
            }
        })
        .collect();
    let (_directory, path) = file(&as_file);
    let mut by_variable = dwell(&["serve"]);
    by_variable.envs(settings.iter().map(|(name, value)| (format!("DWELL_{name}"), *value)));
    let mut by_flag = dwell(&["serve"]);
    for (name, value) in settings {
        by_flag.arg(format!("--{}", name.to_lowercase().replace('_', "-")));
        if value != "true" {
            by_flag.arg(value);
        }
    }
    for mut command in [dwell(&["serve", "--config", path.to_str().unwrap()]), by_variable, by_flag] {
        let (mut child, address, banner) = start(command.current_dir(directory.path()).stderr(Stdio::null()));
        let client = Client::new(address);
        let authorization = [("authorization", "Bearer secret")];
        let info = client.send("GET", "/v1/info", &authorization, None).ok(200);
        assert_eq!(info["limits"]["body"], 1_024);
        assert_eq!(client.send("GET", "/v1/dev/clock", &authorization, None).status, 200);
        assert!(banner.contains(data.to_str().unwrap()), "{banner}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(data.exists());
}

#[test]
fn mistakes_in_a_file_are_all_shown_in_their_place() {
    let text = "lisen = \"127.0.0.1:0\"\n\nmax_body = \"huge\"\n  durability = \"sometimes\"\ndev_clock = \"yes\"\n\
                max_connections = 0\n[section]\nkey = 1\n";
    let (ended, path) = refused(text);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let shown = &ended.stderr;
    for expected in [
        format!("{path}:1:1"),
        "did you mean \"listen\"?".to_owned(),
        "1 | lisen = \"127.0.0.1:0\"\n  | ^^^^^ is unknown".to_owned(),
        format!("{path}:3:12"),
        "3 | max_body = \"huge\"\n  |            ^^^^^^ is not a size".to_owned(),
        format!("{path}:4:16"),
        "  durability = \"sometimes\"\n  |                ^^^^^^^^^^^".to_owned(),
        format!("{path}:5:13"),
        "must be true or false".to_owned(),
        format!("{path}:6:19"),
        format!("{path}:7:"),
    ] {
        assert!(shown.contains(&expected), "{expected:?} is not in:\n{shown}");
    }
    assert!(shown.contains("6 mistakes"), "{shown}");
}

#[test]
fn a_file_that_is_not_toml_is_shown_where_it_is_not() {
    let (ended, path) = refused("listen = \"127.0.0.1:0\"\nstore = memory\n");
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stderr.contains(&format!("{path}:2:")) && ended.stderr.contains('^'), "{}", ended.stderr);
    let ended = run(&mut dwell(&["serve", "--config", "/nowhere/dwell.toml"]));
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stderr.contains("/nowhere/dwell.toml"), "{ended:?}");
}

#[test]
fn mistakes_of_all_sources_are_shown_at_once() {
    let (_directory, path) = file("max_body = \"huge\"\n");
    let mut command = dwell(&["serve", "--config", path.to_str().unwrap(), "--listen", "nonsense"]);
    let ended = run(command.env("DWELL_DURABILITY", "often"));
    assert_eq!(ended.code, Some(78), "{ended:?}");
    for expected in ["--listen \"nonsense\"", "DWELL_DURABILITY", "max_body = \"huge\""] {
        assert!(ended.stderr.contains(expected), "{expected} is not in:\n{}", ended.stderr);
    }
}

#[test]
fn wrong_settings_are_refused_with_code_78() {
    for flags in [
        ["--listen", "3935"],
        ["--listen", "127.0.0.1:99999"],
        ["--listen", ":0"],
        ["--store", "mysql://x"],
        ["--store", "memory"],
        ["--store", "file:"],
        ["--data-dir", ""],
        ["--token", ""],
        ["--token", "two words"],
        ["--token-file", "/nowhere/tokens"],
        ["--memory", "1"],
        ["--memory", "lots"],
        ["--max-body", "0"],
        ["--max-body", "17MiB"],
        ["--max-connections", "0"],
        ["--log-format", "xml"],
        ["--log", "what,=is=this"],
    ] {
        let directory = temporary();
        let ended = run(dwell(&["serve"]).args(flags).current_dir(directory.path()));
        assert_eq!(ended.code, Some(78), "{flags:?}: {ended:?}");
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "{flags:?} left something behind");
    }
    let both = run(&mut dwell(&["serve", "--store", "memory:", "--data-dir", "x"]));
    assert_eq!(both.code, Some(78), "{both:?}");
    let secret = run(&mut dwell(&["serve", "--token", "s3cr3t words"]));
    assert!(!secret.stderr.contains("s3cr3t"), "a token is never shown: {secret:?}");
}

#[cfg(not(feature = "otlp"))]
#[test]
fn a_build_without_traces_refuses_what_asks_for_them() {
    let refused = |command: &mut std::process::Command| {
        let ended = run(command);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(ended.stderr.contains("needs a build with the feature \"otlp\""), "{ended:?}");
    };
    let serve = ["serve", "--store", "memory:"];
    refused(dwell(&serve).args(["--otlp-endpoint", "http://127.0.0.1:4318"]));
    refused(dwell(&serve).args(["--otlp-ratio", "0.5"]));
    refused(dwell(&serve).env("DWELL_OTLP_ENDPOINT", "http://127.0.0.1:4318"));
    let (_directory, path) = file("otlp_endpoint = \"http://127.0.0.1:4318\"\n");
    refused(dwell(&serve).args(["--config", path.to_str().unwrap()]));
}

#[test]
fn the_default_store_is_a_directory_here() {
    let directory = temporary();
    let mut command = dwell(&["serve", "--listen", "127.0.0.1:0"]);
    let (mut child, address, _) = start(command.current_dir(directory.path()).stderr(Stdio::null()));
    Client::new(address).put_job("t", "a", json!({}));
    assert!(directory.path().join("dwell-data").is_dir());
    child.kill().unwrap();
    child.wait().unwrap();
}
