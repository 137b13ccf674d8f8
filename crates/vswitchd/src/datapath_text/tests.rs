mod acting;
mod composing;
mod reading;
mod writing;
