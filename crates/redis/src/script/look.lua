-- Looks at a queue. ARGV: part, name, a member or an empty text, `whole` or `around`. Answers: the view.
return view(ARGV[1], ARGV[2], ARGV[3], ARGV[4] == 'whole')
