use torpor_platform::Platform;
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let a: Vec<String> = std::env::args().collect();
    let trace = torpor_trace::read(a[1].as_ref())?;
    let p = Platform::resolve(&a[2])?;
    let e = torpor_sim::extract::extract(&trace, Some(&p), "x")?;
    std::fs::write("/tmp/x.toml", &e.text)?;
    println!("{:?} {} bytes", e.summary, e.text.len());
    let c = torpor_sim::extract::check(&trace, &p, "menu")?;
    let mut t = c.tasks.clone();
    t.sort_by(|a,b| b.recorded_cpu_ns.total_cmp(&a.recorded_cpu_ns));
    for t in t.iter().take(25) { println!("{:32} {:9.0} {:9.0} {:6.2}%  {:5} {:5}", t.name, t.recorded_cpu_ns/1e3, t.simulated_cpu_ns/1e3, 100.*(t.simulated_cpu_ns/t.recorded_cpu_ns-1.), t.recorded_wakeups, t.simulated_wakeups); }
    let off = t.iter().filter(|t| (t.simulated_cpu_ns/t.recorded_cpu_ns-1.).abs()>0.02).count();
    let offw = t.iter().filter(|t| (t.simulated_wakeups as f64-t.recorded_wakeups as f64).abs()>0.05*t.recorded_wakeups as f64).count();
    println!("tasks {} off cpu {} off wakeups {}; sums {:.3} {:.3} ms, {} {}", t.len(), off, offw, t.iter().map(|t|t.recorded_cpu_ns).sum::<f64>()/1e6, t.iter().map(|t|t.simulated_cpu_ns).sum::<f64>()/1e6, t.iter().map(|t|t.recorded_wakeups).sum::<u64>(), t.iter().map(|t|t.simulated_wakeups).sum::<u64>());
    println!("{:?}", c.idle);
    Ok(())
}
