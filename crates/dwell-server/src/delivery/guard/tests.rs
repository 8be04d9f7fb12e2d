use super::*;

/// What a guard that allows nothing special says to a spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// May be called; a name is judged by what it resolves to.
    Yes,
    /// Refused, but `--allow-private-targets` would allow it.
    Private,
    /// Refused, but a network of the operator's would allow it.
    Special,
    /// Refused whatever is allowed.
    Never,
    /// Refused for its shape.
    Shape,
}

use Says::{Never, Private, Shape, Special, Yes};

const TABLE: &[(&str, Says)] = &[
    // The loopback address, in every way that some reader of URLs takes.
    ("http://127.0.0.1/", Private),
    ("http://127.0.0.1:8080/hook", Private),
    ("HTTP://127.0.0.1/", Private),
    ("https://127.0.0.1/", Private),
    ("http://127.0.0.1./", Private),
    ("http://127.1/", Private),
    ("http://127.0.1/", Private),
    ("http://127.1./", Private),
    ("http://2130706433/", Private),
    ("http://2130706433./", Private),
    ("http://0x7f000001/", Private),
    ("http://0X7F000001/", Private),
    ("http://0x7f.0.0.1/", Private),
    ("http://0x7f.1/", Private),
    ("http://0x7f.0x0.0x0.0x1/", Private),
    ("http://017700000001/", Private),
    ("http://0177.0.0.1/", Private),
    ("http://0177.0.0.01/", Private),
    ("http://0177.1/", Private),
    ("http://127.0x000001/", Private),
    ("http://127.255.255.254/", Private),
    ("http://127.0.0.1:80/", Private),
    ("http://127.0.0.1?x=y", Private),
    ("http://127.0.0.1#fragment", Private),
    ("http://%31%32%37.0.0.1/", Private),
    ("http://127%2e0%2e0%2e1/", Private),
    ("http://１２７.０.０.１/", Private),
    ("http://127。0。0。1/", Private),
    ("http://①②⑦.⓪.⓪.①/", Private),
    ("http://[::1]/", Private),
    ("http://[0:0:0:0:0:0:0:1]/", Private),
    ("http://[0000:0000:0000:0000:0000:0000:0000:0001]/", Private),
    ("http://[::0001]/", Private),
    ("http://[::0.0.0.1]/", Private),
    ("http://[::ffff:127.0.0.1]/", Private),
    ("http://[::FFFF:7f00:1]/", Private),
    ("http://[0:0:0:0:0:ffff:7f00:0001]/", Private),
    ("http://[::127.0.0.1]/", Private),
    ("http://[::7f00:1]/", Private),
    ("http://[::ffff:0:127.0.0.1]/", Private),
    ("http://[64:ff9b::127.0.0.1]/", Private),
    ("http://[64:ff9b::7f00:1]/", Private),
    ("http://[2002:7f00:1::]/", Private),
    ("http://[2002:7f00:0001::1]/", Private),
    ("http://localhost/", Private),
    ("http://LOCALHOST/", Private),
    ("http://localhost./", Private),
    ("http://a.localhost/", Private),
    ("http://a.b.LocalHost.:8080/", Private),
    ("http://ｌｏｃａｌｈｏｓｔ/", Private),
    ("http://ⓛocalhost/", Private),
    ("http://loc%61lhost/", Private),
    // Networks of one's own.
    ("http://10.0.0.1/", Private),
    ("http://10.255.255.255/", Private),
    ("http://10.1/", Private),
    ("http://167772161/", Private),
    ("http://0x0a000001/", Private),
    ("http://012.0.0.1/", Private),
    ("http://172.16.0.1/", Private),
    ("http://172.31.255.255/", Private),
    ("http://172.16.1/", Private),
    ("http://192.168.0.1/", Private),
    ("http://192.168.1/", Private),
    ("http://3232235521/", Private),
    ("http://0300.0250.0.1/", Private),
    ("http://[fc00::1]/", Private),
    ("http://[fd12:3456:789a::1]/", Private),
    ("http://[fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]/", Private),
    ("http://[::ffff:10.0.0.1]/", Private),
    ("http://[64:ff9b::192.168.0.1]/", Private),
    ("http://[2002:c0a8:0001::]/", Private),
    // Never: unspecified, link-local, multicast, broadcast, clouds' metadata.
    ("http://0.0.0.0/", Never),
    ("http://0/", Never),
    ("http://0x0/", Never),
    ("http://00/", Never),
    ("http://0.1.2.3/", Never),
    ("http://[::]/", Never),
    ("http://[::0]/", Never),
    ("http://[::ffff:0.0.0.0]/", Never),
    ("http://[64:ff9b::]/", Never),
    ("http://[2002::]/", Never),
    ("http://169.254.169.254/latest/meta-data/", Never),
    ("http://169.254.169.254./", Never),
    ("http://169.254.43518/", Never),
    ("http://2852039166/", Never),
    ("http://0xa9fea9fe/", Never),
    ("http://0xA9.0xFE.0xA9.0xFE/", Never),
    ("http://025177524776/", Never),
    ("http://0251.0376.0251.0376/", Never),
    ("http://169.254.0.1/", Never),
    ("http://[::ffff:169.254.169.254]/", Never),
    ("http://[::ffff:a9fe:a9fe]/", Never),
    ("http://[::a9fe:a9fe]/", Never),
    ("http://[64:ff9b::a9fe:a9fe]/", Never),
    ("http://[2002:a9fe:a9fe::]/", Never),
    ("http://[fe80::1]/", Never),
    ("http://[febf::1]/", Never),
    ("http://[fd00:ec2::254]/", Never),
    ("http://[fd20:ce::254]/", Never),
    ("http://100.100.100.200/", Never),
    ("http://168.63.129.16/", Never),
    ("http://192.0.0.192/", Never),
    ("http://224.0.0.1/", Never),
    ("http://239.255.255.255/", Never),
    ("http://[ff02::1]/", Never),
    ("http://[ff0e::1]/", Never),
    ("http://255.255.255.255/", Never),
    ("http://4294967295/", Never),
    // Neither private nor on the internet.
    ("http://100.64.0.1/", Special),
    ("http://192.0.0.1/", Special),
    ("http://192.0.2.1/", Special),
    ("http://198.51.100.1/", Special),
    ("http://203.0.113.1/", Special),
    ("http://198.18.0.1/", Special),
    ("http://240.0.0.1/", Special),
    ("http://[64:ff9b:1::1]/", Special),
    ("http://[2001::1]/", Special),
    ("http://[2001:db8::1]/", Special),
    ("http://[3fff::1]/", Special),
    ("http://[fec0::1]/", Special),
    ("http://[100::1]/", Special),
    ("http://[5f00::1]/", Special),
    ("http://[4000::1]/", Special),
    // What different readers understand differently is not read at all.
    ("", Shape),
    ("example.com", Shape),
    ("//example.com/", Shape),
    ("http:example.com", Shape),
    ("http:/example.com", Shape),
    ("http:///example.com", Shape),
    ("http://", Shape),
    ("http:///", Shape),
    ("http://?x", Shape),
    ("http://#x", Shape),
    ("http:\\\\127.0.0.1\\", Shape),
    ("http://127.0.0.1\\@example.com/", Shape),
    ("http://example.com\\.evil.example/", Shape),
    ("http://user@example.com/", Shape),
    ("http://user:password@example.com/", Shape),
    ("http://example.com@127.0.0.1/", Shape),
    ("http://@127.0.0.1/", Shape),
    ("http://:@example.com/", Shape),
    ("http://127.0.0.\n1/", Shape),
    ("http://127.0.0.1\t/", Shape),
    (" http://127.0.0.1/", Shape),
    ("http://127.0.0.1/ ", Shape),
    ("http://exa mple.com/", Shape),
    ("http://example.com\u{0}/", Shape),
    ("http://example.com\u{a0}/", Shape),
    ("http://256.0.0.1/", Shape),
    ("http://127.0.0.1.1/", Shape),
    ("http://0x100000000/", Shape),
    ("http://4294967296/", Shape),
    ("http://1.2.3.08/", Shape),
    ("http://[::1/", Shape),
    ("http://::1/", Shape),
    ("http://[fe80::1%25eth0]/", Shape),
    ("http://[fe80::1%eth0]/", Shape),
    ("http://[::ffff:127.1]/", Shape),
    ("http://[127.0.0.1]/", Shape),
    ("http://example.com:0/", Shape),
    ("http://example.com:65536/", Shape),
    ("http://example.com:x/", Shape),
    ("http://./", Shape),
    ("http://exa%00mple.com/", Shape),
    ("http://exa%2Fmple.com/", Shape),
    ("ftp://example.com/", Shape),
    ("file:///etc/passwd", Shape),
    ("gopher://127.0.0.1:6379/_INFO", Shape),
    ("javascript:alert(1)", Shape),
    ("ws://example.com/", Shape),
    // Everybody else.
    ("http://example.com/", Yes),
    ("https://example.com/hook?x=1&y=2", Yes),
    ("https://EXAMPLE.com./hook", Yes),
    ("https://bücher.example/", Yes),
    ("https://xn--bcher-kva.example/", Yes),
    ("http://example.com:8443/", Yes),
    ("http://1.1.1.1/", Yes),
    ("http://16843009/", Yes),
    ("http://[2606:4700:4700::1111]/", Yes),
    ("http://[::ffff:1.1.1.1]/", Yes),
    ("http://[64:ff9b::1.1.1.1]/", Yes),
    ("http://[2002:101:101::]/", Yes),
    ("http://172.15.255.255/", Yes),
    ("http://172.32.0.1/", Yes),
    ("http://11.0.0.1/", Yes),
    ("http://126.255.255.255/", Yes),
    ("http://128.0.0.1/", Yes),
    ("http://169.253.0.1/", Yes),
    ("http://100.63.255.255/", Yes),
    ("http://100.128.0.1/", Yes),
    ("http://223.255.255.255/", Yes),
    ("http://localhost.example.com/", Yes),
    ("http://notlocalhost/", Yes),
    ("http://127.0.0.1.example.com/", Yes),
];

fn networks(texts: &[&str]) -> Vec<Network> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn says(address: &str) -> Says {
    let strict = Guard::default();
    let private = Guard { private: true, ..Guard::default() };
    let everything = Guard { private: true, networks: networks(&["0.0.0.0/0", "::/0"]), ..Guard::default() };
    match strict.read(address) {
        Ok(_) => Yes,
        Err(Refused::Address(_)) if private.read(address).is_ok() => Private,
        Err(Refused::Address(_)) if everything.read(address).is_ok() => Special,
        Err(Refused::Address(_)) => Never,
        Err(_) => Shape,
    }
}

#[test]
fn every_spelling_is_judged_by_what_it_means() {
    assert!(TABLE.len() >= 100);
    let wrong: Vec<_> = TABLE.iter().filter(|(address, wanted)| says(address) != *wanted).collect();
    let found: Vec<_> = wrong.iter().map(|(address, wanted)| (address, wanted, says(address))).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_may_be_allowed_is_allowed_by_name() {
    let guard = Guard { networks: networks(&["10.1.0.0/16", "100.64.0.0/10", "fd00:1::/32"]), ..Guard::default() };
    for allowed in ["10.1.2.3", "[::ffff:10.1.2.3]", "[64:ff9b::10.1.2.3]", "100.64.0.1", "[fd00:1::9]", "1.1.1.1"] {
        assert!(guard.read(&format!("http://{allowed}/")).is_ok(), "{allowed}");
    }
    for refused in ["10.2.0.1", "127.0.0.1", "[fd00:2::9]", "169.254.169.254", "100.100.100.200"] {
        assert!(guard.read(&format!("http://{refused}/")).is_err(), "{refused}");
    }
}

#[test]
fn only_loopback_is_allowed_where_only_that_is() {
    let guard = Guard { loopback: true, ..Guard::default() };
    for allowed in ["127.0.0.1", "localhost", "[::1]", "127.9.9.9", "[::ffff:127.0.0.1]"] {
        assert!(guard.read(&format!("http://{allowed}:8080/")).is_ok(), "{allowed}");
    }
    for refused in ["10.0.0.1", "192.168.0.1", "[fd00::1]", "0.0.0.0", "169.254.169.254"] {
        assert!(guard.read(&format!("http://{refused}/")).is_err(), "{refused}");
    }
}

#[test]
fn only_the_ports_that_are_named_are_called() {
    let guard = Guard { ports: vec![443, 8443], ..Guard::default() };
    assert!(guard.read("https://example.com/").is_ok() && guard.read("http://example.com:8443/").is_ok());
    assert_eq!(guard.read("http://example.com/"), Err(Refused::Port(80)));
    assert_eq!(guard.read("https://example.com:6379/"), Err(Refused::Port(6379)));
}

#[test]
fn an_origin_is_always_spelled_the_same() {
    let origin = |address: &str| Guard::default().read(address).unwrap().origin().to_owned();
    for (address, wanted) in [
        ("https://example.com/a?b", "https://example.com:443"),
        ("HTTPS://EXAMPLE.COM.:443/", "https://example.com:443"),
        ("http://example.com", "http://example.com:80"),
        ("http://16843009:81/", "http://1.1.1.1:81"),
        ("http://[2606:4700:4700:0::1111]/", "http://[2606:4700:4700::1111]:80"),
        ("https://bücher.example/", "https://xn--bcher-kva.example:443"),
    ] {
        assert_eq!(origin(address), wanted);
    }
    let kept = Guard::default().read("HTTPS://EXAMPLE.COM.:443/").unwrap();
    assert_eq!(kept.address(), "HTTPS://EXAMPLE.COM.:443/", "an address is kept as it was given");
}

#[test]
fn a_refusal_says_what_would_help() {
    let why = |address: &str| Guard::default().read(address).unwrap_err().to_string();
    assert_eq!(why("http://2130706433/"), "is 127.0.0.1, a loopback address; --allow-private-targets would allow it");
    assert_eq!(
        why("http://[::ffff:a9fe:a9fe]/"),
        "is ::ffff:169.254.169.254 (169.254.169.254), a link-local address, where clouds keep their metadata, which is never called"
    );
    assert!(why("http://100.64.0.1/").ends_with("target_networks can allow it"));
    assert_eq!(why("ftp://x"), "must begin with http:// or https://; try \"https://example.com/hook\"");
    assert!(why(&format!("http://{}/", "x".repeat(2_048))).starts_with("has 2056 bytes"));
    let secret = why("http://user:hush@example.com/");
    assert!(!secret.contains("hush"), "{secret}");
}

#[test]
fn networks_are_read_strictly() {
    for good in ["10.0.0.0/8", "0.0.0.0/0", "10.1.2.3", "10.1.2.3/32", "::/0", "fd00::/8", "::1"] {
        assert!(good.parse::<Network>().is_ok(), "{good}");
    }
    for wrong in ["", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10/8", "x/8", "::/129", "10.0.0.0/8/8"]
    {
        assert_eq!(wrong.parse::<Network>(), Err(NotANetwork::Shape), "{wrong}");
    }
    assert_eq!("10.1.0.0/8".parse::<Network>(), Err(NotANetwork::HostBits(8)));
}
