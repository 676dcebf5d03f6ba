// What was asked for before the log-in is in the fragment, which a form does not send and a redirection keeps.
document.querySelector("form").action = "/login" + location.hash;
