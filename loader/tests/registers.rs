//! A process whose frames were made on a processor that keeps AVX-512 registers at other places continues on this one.

mod common;

use common::{build, describe, expect, path_in, stasis_load};
use serde_json::Value;
use std::path::Path;

type Place = (u64, usize, usize);
/// Components of AVX, AVX-512 and protection keys, and their places on processors of AMD (Zen 4).
const OF_AMD: [Place; 5] = [
    (2, 576, 256),
    (5, 832, 64),
    (6, 896, 512),
    (7, 1408, 1024),
    (9, 2432, 8),
];
/// The same on processors of Intel.
const OF_INTEL: [Place; 5] = [
    (2, 576, 256),
    (5, 1088, 64),
    (6, 1152, 512),
    (7, 1664, 1024),
    (9, 2688, 8),
];
/// The registers of FXSAVE with a header; the kernel's words; the marks of the kernel.
const LEGACY: usize = 576;
const WORDS: usize = 464;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Component, offset and bytes of each place.
fn places(header: &Value) -> Vec<Place> {
    let places = header["registers"]["layouts"][0]["places"].as_array();
    let place = |place: &Value| {
        let [component, offset, bytes] =
            ["component", "offset", "bytes"].map(|key| number(&place[key]));
        (component as u64, offset, bytes)
    };
    places.expect("places").iter().map(place).collect()
}

/// Bytes of an area with these places.
fn end(places: &[Place]) -> usize {
    let ends = places.iter().map(|(_, offset, bytes)| offset + bytes);
    ends.max().expect("a place")
}

/// Whether one of the two frames that hold the program's own registers has its area here: that of the handler, and that
/// of the checkpoint, which interrupted the handler. All other bytes that look like a frame can be remains of one.
fn holds_registers(area: &[u8]) -> bool {
    const XMM3: usize = 160 + 3 * 16;
    const GIVEN: usize = 136;
    let given = |n: usize| (n * GIVEN..n * GIVEN + 16).map(|at| (at * 31 + 7) as u8);
    [0, 1]
        .iter()
        .any(|n| given(*n).eq(area[XMM3..XMM3 + 16].iter().copied()))
}

/// Changes the registers of a frame to the other layout, in their place.
fn move_registers(area: &mut [u8], here: &[Place], there: &[Place]) {
    let before = area.to_vec();
    let components = there
        .iter()
        .fold(0b11, |all, (component, ..)| all | 1 << component);
    let mut in_use = u64::from_le_bytes(before[512..520].try_into().expect("eight bytes"));
    in_use &= components;
    area[512..520].copy_from_slice(&in_use.to_le_bytes());
    area[LEGACY..].fill(0xee);
    for (component, to, bytes) in there {
        if let Some((_, from, _)) = here.iter().find(|(there, ..)| there == component) {
            area[*to..to + bytes].copy_from_slice(&before[*from..from + bytes]);
        }
    }
    let end = end(there);
    area[end..end + 4].copy_from_slice(&MAGIC2.to_le_bytes());
    let words = [MAGIC1, end as u32 + 4, components as u32, 0, end as u32];
    for (n, word) in words.iter().enumerate() {
        area[WORDS + 4 * n..][..4].copy_from_slice(&word.to_le_bytes());
    }
}

/// Makes a dump that of a processor with the other layout; returns the number of frames that it has changed.
fn change(dump: &Path) -> usize {
    let content = std::fs::read(dump).expect("read the dump");
    let length = u64::from_le_bytes(content[..8].try_into().expect("eight bytes")) as usize;
    let mut header: Value = serde_json::from_slice(&content[8..8 + length]).expect("a header");
    let mut memory = content[8 + length..].to_vec();
    let here = places(&header);
    let there = [OF_AMD, OF_INTEL].into_iter();
    let there =
        there.max_by_key(|layout| layout.iter().filter(|place| !here.contains(place)).count());
    let there = there.expect("a layout");
    let mut frames = 0;
    for at in (0..memory.len() - LEGACY).step_by(64) {
        let bytes = word(&memory, at + WORDS + 16) as usize;
        let is_area = word(&memory, at + WORDS) == MAGIC1
            && here.iter().any(|place| end(&[*place]) == bytes)
            && memory.len() > at + bytes + 4
            && word(&memory, at + bytes) == MAGIC2;
        if is_area && holds_registers(&memory[at..]) {
            let room = bytes.max(end(&there)) + 4;
            move_registers(&mut memory[at..at + room], &here, &there);
            frames += 1;
        }
    }
    let places: Vec<Value> = there
        .iter()
        .map(|(component, offset, bytes)| serde_json::json!({"component": component, "offset": offset, "bytes": bytes}))
        .collect();
    header["registers"]["layouts"][0]["places"] = places.into();
    let header = serde_json::to_vec(&header).expect("a header");
    let changed = [&(header.len() as u64).to_le_bytes()[..], &header, &memory].concat();
    std::fs::write(dump, changed).expect("write the dump");
    frames
}

#[test]
fn frames_of_another_processor() {
    if !std::arch::is_x86_feature_detected!("avx512bw") {
        skip::skip!("the processor has no AVX-512");
    }
    let program = build("registers.c", "gcc", &["-pthread"]);
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = |name: &str| path_in(&directory, name);
    let (dump, when) = (path("dump"), path("in-handler"));
    let program = program.to_str().expect("UTF-8");
    let run = ["run", "--dump", &dump, "--when", &when, program, &when];
    let saved = stasis_load(&run).output().expect("run");
    assert!(saved.status.success(), "{}", describe(&saved));
    std::fs::remove_file(&when).expect("the file");
    let frames = change(Path::new(&dump));
    assert!(frames >= 2, "found {frames} of two frames");
    expect(stasis_load(&["restore", &dump]), "registers ok");
}
