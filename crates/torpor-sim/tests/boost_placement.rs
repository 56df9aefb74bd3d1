// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A boosted task moves to a bigger CPU, and what becomes of it there.

mod support;

use support::{boosted, count};
use torpor_platform::Platform;

/// Migrations and requests of a reader in 4 s. The device's interrupts go to `irq`, or to where
/// each request came from.
fn reader(governor: &str, boost: &str, irq: Option<u32>) -> (u64, u64) {
    let platform = Platform::resolve("rk3399").unwrap();
    let irq = irq.map(|cpu| format!("cpu = \"{cpu}\"")).unwrap_or_default();
    let workload = format!(
        "[[task]]\nname = \"reader\"\nphase = [{{ run_us = 3 }}, {{ io = \"d\" }}]\n\
         [[device]]\nname = \"d\"\nservice_us = {{ dist = \"gamma\", mean = 100, sd = 30 }}\n{irq}"
    );
    let mut request = boosted(platform, &workload, boost, 4_000);
    request.governors = vec![governor.parse().unwrap()];
    let counted = count(&request).unwrap();
    (counted.kinds[0].migrations, counted.kinds[0].ios)
}

/// The device interrupts CPU 0, where the reader is, too, and all goes well until it is boosted off
/// to a big CPU. CPU 0 has nothing left to do then but to take interrupts. Under menu it goes into
/// a state that takes longer to leave than the device takes to serve: each request waits for that
/// and for an IPI to the big CPU. So the boost does not pay, the level falls, the reader goes home,
/// where it pays again. Without any boost the reader gets more.
#[test]
fn a_reader_goes_to_and_fro_if_its_interrupts_stay_behind() {
    let (moves, ios) = reader("menu", "per-task", Some(0));
    let (no_moves, more) = reader("menu", "none", Some(0));
    assert!(moves > 30 && no_moves == 0, "{moves} {no_moves}");
    assert!(3 * more > 4 * ios, "{ios} {more}");

    // Either is enough: interrupts that follow, or an idle state that is left at once.
    let (follow, ios) = reader("menu", "per-task", None);
    assert!(follow < moves / 3 && ios > more, "{follow} {ios} {more}");
    let (shallow, ios) = reader("shallowest", "per-task", Some(0));
    assert!(shallow <= 3 && ios > reader("shallowest", "none", Some(0)).1, "{shallow} {ios}");

    // A boost that says nothing about placement leaves it where it is.
    let (stays, ios) = reader("menu", "iowait", Some(0));
    assert!(stays == 0 && ios > more, "{stays} {ios}");
}
