-- For a client that believes in its session until this is answered, so that it need not be asked for. Answers: `left`, or
-- `absent` if the contender was gone before.
return was_there and 'left' or 'absent'
