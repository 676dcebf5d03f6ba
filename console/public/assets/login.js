// What was asked for before the log-in is in the fragment, which a form does not send and a redirection keeps.
// Loaded before the form is there, so that no log-in is quicker than this.
document.addEventListener("submit", (event) => {
  event.target.action = "/login" + location.hash;
});
