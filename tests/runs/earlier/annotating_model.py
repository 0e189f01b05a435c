"""A predictor that answers with everything an answer may say; journals of earlier versions know it by these bytes."""

from decabench.predictors import Answer, Failure


class Annotating:
    """Cuts every third context, stops every fourth answer short, and fails on every seventh example."""

    def describe(self):
        return {"weights": "none", "lengths": [1, 2]}

    def predict(self, questions):
        return [self._answer(question) for question in questions]

    def _answer(self, question):
        number = int(question.id.rpartition(".")[2])
        if number % 7 == 6:
            return Failure(f"no answer to number {number}")
        kept = (0, 10) if number % 3 == 0 else None
        finish = "length" if number % 4 == 0 else "stop"
        return Answer(f"Zoë says \u2028{question.context[:10]}", finish, kept, len(question.context), None)


model = Annotating()
