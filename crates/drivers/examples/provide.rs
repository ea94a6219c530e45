//! Gives the kernel a congestion control as long as its standard input is open: `provide hybla`.

use std::io::Read as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args()
        .nth(1)
        .ok_or("the name of a congestion control is missing")?;
    let _provided = constel_drivers::congestion::provide(&name)?;
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
