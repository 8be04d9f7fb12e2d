//! What is in `ops/` speaks of this server: metrics that are there, settings that are there, files that are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::server::dwell;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Words of a text that start so.
fn words(text: &str, start: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(start)).map(str::to_owned).collect()
}

/// The metrics that a text names.
fn metrics(text: &str) -> BTreeSet<String> {
    let mut names = words(text, "dwell_");
    names.extend(words(text, "process_"));
    names.into_iter().map(|name| name.strip_suffix("_bucket").map(str::to_owned).unwrap_or(name)).collect()
}

/// Those of the page that is checked against a server.
fn known() -> BTreeSet<String> {
    let page = file("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned()).collect()
}

#[test]
fn the_dashboard_shows_metrics_that_are_there() {
    let dashboard: Value = serde_json::from_str(&file("ops/grafana/dwell.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut shown = BTreeSet::new();
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let used = metrics(target["expr"].as_str().unwrap());
            assert!(!used.is_empty(), "{panel}");
            shown.extend(used);
        }
    }
    let known = known();
    let unknown: Vec<_> = shown.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    // All that speak of Dwell are on it.
    let missing: Vec<_> = known.difference(&shown).filter(|name| name.starts_with("dwell_")).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn alerts_go_by_metrics_that_are_there() {
    let (known, rules) = (known(), file("ops/prometheus/alerts.yml"));
    let alerts = rules.lines().filter(|line| line.trim_start().starts_with("- alert: ")).count();
    let expressions: Vec<_> = rules.lines().filter_map(|line| line.trim_start().strip_prefix("expr: ")).collect();
    assert!(alerts > 5 && alerts == expressions.len(), "{alerts}");
    let used: BTreeSet<_> = expressions.iter().flat_map(|expression| metrics(expression)).collect();
    let unknown: Vec<_> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn units_images_and_charts_use_settings_that_are_there() {
    let help = dwell(&["serve", "--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let settings = words(&help, "DWELL_");
    assert!(settings.contains("DWELL_LISTEN"), "{help}");
    let (image, chart) = (file("ops/docker/Dockerfile"), file("ops/helm/dwell/templates/statefulset.yaml"));
    for text in [&image, &chart] {
        let used = words(text, "DWELL_");
        assert!(used.len() > 2 && used.is_subset(&settings), "{used:?}");
    }
    let unit = file("ops/systemd/dwell.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/dwell serve ")).unwrap();
    for flag in start.split(' ').filter(|word| word.starts_with("--")) {
        assert!(help.contains(&format!("{flag} ")), "{flag}");
    }
    for line in ["Type=notify", "WatchdogSec=30s", "ExecReload=/bin/kill -HUP $MAINPID", "StateDirectory=dwell"] {
        assert!(unit.lines().any(|known| known == line), "{line}");
    }
}

#[test]
fn the_image_is_made_of_files_that_are_there() {
    let image = file("ops/docker/Dockerfile");
    let mut members: BTreeSet<String> = BTreeSet::new();
    for line in image.lines().filter_map(|line| line.strip_prefix("COPY ")).filter(|line| !line.contains("--from")) {
        let words: Vec<_> = line.split(' ').collect();
        for source in &words[..words.len() - 1] {
            assert!(root().join(source).exists(), "{source}");
            members.insert((*source).to_owned());
        }
    }
    // Cargo wants every member of the workspace to be there, and the tests of some include docs.
    let manifest = file("Cargo.toml");
    let list = manifest.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    for member in list.split('"').skip(1).step_by(2) {
        assert!(members.contains(member.trim_end_matches("/*")), "{member} is not copied");
    }
    let version =
        manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")).unwrap().trim_end_matches('"');
    assert!(image.contains(&format!("FROM rust:{version}-")), "the image is built with another Rust than {version}");
}

#[test]
fn the_chart_holds_together() {
    let (chart, values) = (file("ops/helm/dwell/Chart.yaml"), file("ops/helm/dwell/values.yaml"));
    assert!(chart.contains(&format!("appVersion: \"{}\"", env!("CARGO_PKG_VERSION"))), "{chart}");
    let mut defined = BTreeSet::new();
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(root().join("ops/helm/dwell/templates")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(text.split("{{").skip(1).all(|part| part.contains("}}")), "{text}");
        let opened =
            ["{{- if ", "{{- with ", "{{- define "].iter().map(|word| text.matches(word).count()).sum::<usize>();
        assert_eq!(opened, text.matches("{{- end ").count(), "{text}");
        defined.extend(text.split("define \"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
        texts.push(text);
    }
    for text in &texts {
        for name in text.split("include \"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(defined.contains(name), "{name} is not defined");
        }
        for value in text.split(".Values.").skip(1) {
            let path = value.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').next().unwrap();
            let mut indent = String::new();
            for part in path.split('.').filter(|part| !part.is_empty()) {
                assert!(
                    values.lines().any(|line| line.starts_with(&format!("{indent}{part}:"))),
                    "{path} has no value"
                );
                indent.push_str("  ");
            }
        }
    }
}
